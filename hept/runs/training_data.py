"""The data of a run: settings and a dataset enter, checked inputs and loaders leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from hepdata.errors import InputError
from hepdata.loader.augment import Augmentation
from hepdata.loader.batch import Batch
from hepdata.loader.dataset import Dataset, DatasetLike, open_dataset
from hepdata.loader.stream import Loader
from hepdata.schema import ModelInput, Target
from hept.metrics.figures_of_merit import make_figures
from hept.model.dataset_checks import (
    Inputs,
    check_fit,
    check_labels,
    check_training,
    choose_model_inputs,
    find_target,
)
from hept.model.preparation import learn_spread
from hept.objectives.objective import make_objective
from hept.runs.run import describe_location
from hept.settings.train_config import TrainConfig

# Mean and spread of a feature converge with far fewer clouds.
CLOUDS_FOR_STATISTICS = 100


@dataclass(frozen=True)
class TrainingData:
    """A dataset, ready for training.

    Attributes:
        dataset: The opened dataset.
        target: The training target.
        train: Shuffled batches of this process.
        valid: The whole validation split, one cloud per batch.
        features: The features of the model.
        coords: The coordinates of the model.
    """

    dataset: Dataset
    target: Target
    train: Loader
    valid: Loader
    features: tuple[ModelInput, ...]
    coords: tuple[ModelInput, ...]

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the dataset."""
        return self.dataset.fingerprint

    def describe(self, run: Path) -> dict[str, object]:
        """Description of the data for the run folder."""
        return {
            **describe_location(self.dataset, run),
            "fingerprint": self.fingerprint,
            "objective": self.target.objective,
            "features": [asdict(entry) for entry in self.features],
            "coords": [asdict(entry) for entry in self.coords],
            "clouds": {name: len(self.dataset[name]) for name in self.dataset.splits},
        }

    def go_to(self, n_batches: int) -> None:
        """Let the next iteration over `train` skip the first `n_batches` of its epoch."""
        self.train.load_state_dict(self.train.state_dict() | {"epoch": self.train.epoch, "step": n_batches})

    def check_fingerprint(self, expected: str, run: Path) -> None:
        """Check that this is the dataset with which a run started.

        Raises:
            InputError: It is another dataset.
        """
        if expected != self.fingerprint:
            raise InputError(
                run,
                found=f"a dataset with fingerprint {self.fingerprint[:12]}",
                expected=f"the dataset with which the run started ({expected[:12]})",
                remedy="resume with the same dataset, or start another run",
            )


def open_training_data(
    config: TrainConfig,
    location: DatasetLike,
    *,
    inputs: Inputs | None = None,
    rank: int = 0,
    world_size: int = 1,
) -> TrainingData:
    """Open a dataset and check that it fits the configuration.

    Args:
        config: Configuration of the run.
        location: The dataset or its location.
        inputs: Inputs of a run that is resumed; by default from schema, settings and training split.
        rank: Rank of this process.
        world_size: Number of processes.

    Raises:
        InputError: Wrong task, no pairs or labels, an empty split, or inputs that the dataset does not have.
    """
    dataset = open_dataset(location)
    check_training(config, dataset)
    target = find_target(dataset)
    needs_pairs = make_objective(target, config.loss).needs_pairs
    # Figures of merit are used only after training; an unknown one must fail before.
    make_figures(target.figures)
    check_labels(dataset, needs_pairs=needs_pairs)
    features, coords = inputs or resolve_inputs(config, dataset)
    check_fit(dataset, features, coords, whose="this run")
    train = dataset["train"].loader(
        config.batch_size,
        workers=config.data.workers,
        shuffle=True,
        seed=config.seed,
        pairs=needs_pairs,
        rank=rank,
        world_size=world_size,
        pin_memory=True,
        batch_points=config.batch_points,
        features=features,
        coords=coords,
        augment=Augmentation(**config.augment.model_dump(), seed=config.seed),
    )
    valid = dataset["valid"].loader(
        1, workers=config.data.workers, pairs=needs_pairs, features=features, coords=coords
    )
    return TrainingData(dataset, target, train, valid, features, coords)


def resolve_inputs(config: TrainConfig, dataset: Dataset) -> Inputs:
    """Features and coordinates from the settings, the dataset's schema and its training split.

    Raises:
        InputError: An unknown column or field, or an invalid value.
    """
    features, coords = choose_model_inputs(config, dataset)
    if any(entry.standardise for entry in features):
        features = learn_spread(features, (batch.features for batch in _sample(dataset, features, coords)))
    if any(entry.standardise for entry in coords):
        coords = learn_spread(coords, (batch.coords for batch in _sample(dataset, features, coords)))
    return features, coords


def _sample(
    dataset: Dataset, features: Sequence[ModelInput], coords: Sequence[ModelInput]
) -> Iterator[Batch]:
    # Not shuffled, so that all processes read the same clouds.
    loader = dataset["train"].loader(1, pairs=False, features=features, coords=coords)
    return islice(loader, CLOUDS_FOR_STATISTICS)
