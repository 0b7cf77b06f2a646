"""The data side of a run: a dataset is checked against what training needs, and gives two loaders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from torch import Tensor

from hepdata.errors import InputError
from hepdata.loader.dataset import Dataset, open_dataset
from hepdata.loader.stream import Loader
from hept.config import TrainConfig
from hept.dataset_checks import check_training, input_names
from hept.network import Network

# The mean and spread of a feature are settled long before this many clouds.
CLOUDS_FOR_STATISTICS = 100


@dataclass(frozen=True)
class TrainingData:
    """A dataset, ready for training.

    Attributes:
        dataset: The opened dataset.
        config: Of the run.
        train: Shuffled batches of this process.
        valid: The whole validation split, one cloud a batch.
        features: Names of the feature columns.
        coords: Names of the coordinate columns.
    """

    dataset: Dataset
    config: TrainConfig
    train: Loader
    valid: Loader
    features: list[str]
    coords: list[str]

    @property
    def fingerprint(self) -> str:
        """Of the dataset."""
        return self.dataset.fingerprint

    def describe(self) -> dict[str, object]:
        """For the run folder."""
        return {
            "dataset": str(self.dataset.place.location),
            "fingerprint": self.fingerprint,
            "features": self.features,
            "coords": self.coords,
            "clouds": {name: len(self.dataset[name]) for name in self.dataset.splits},
        }

    def prepare(self, network: Network) -> None:
        """Give the network the mean and spread of the training features, where asked for."""
        if self.config.data.standardise:
            classes = [i for i, name in enumerate(self.features) if name == "pid_class"]
            network.standardise(self._sample(), leave=classes)

    def go_to(self, n_batches: int) -> None:
        """Begin the next iteration over `train` after so many batches of its epoch."""
        self.train.load_state_dict(self.train.state_dict() | {"epoch": self.train.epoch, "step": n_batches})

    def check_fingerprint(self, expected: str, run: Path) -> None:
        """Compare with the dataset that a run began with.

        Raises:
            InputError: It is another one.
        """
        if expected != self.fingerprint:
            raise InputError(
                run,
                found=f"a dataset with fingerprint {self.fingerprint[:12]}",
                expected=f"the one that the run began with ({expected[:12]})",
                remedy="resume with the same dataset, or begin another run",
            )

    def _sample(self) -> Iterator[Tensor]:
        data = self.config.data
        # Not shuffled, and the same in all processes.
        loader = self.dataset["train"].loader(1, pairs=False, features=data.features, coords=data.coords)
        for batch in islice(loader, CLOUDS_FOR_STATISTICS):
            yield batch.features


def open_training_data(
    config: TrainConfig, location: str | Path, *, rank: int = 0, world_size: int = 1
) -> TrainingData:
    """Open a dataset and see that it fits the configuration.

    Raises:
        InputError: Wrong task, no pairs or labels, an empty split, or an unknown column.
    """
    dataset = open_dataset(location)
    check_training(config, dataset)
    default_features, default_coords = input_names(dataset.schema)
    features = config.data.features or default_features
    coords = config.data.coords or default_coords
    if features == default_features and coords == default_coords:
        # A list of names cannot say that a column comes twice with different scales; the default can.
        config = config.model_copy(
            update={"data": config.data.model_copy(update={"features": None, "coords": None})}
        )
    needs_pairs = config.task == "tracking"
    train = dataset["train"].loader(
        config.batch_size,
        workers=config.data.workers,
        shuffle=True,
        seed=config.seed,
        pairs=needs_pairs,
        rank=rank,
        world_size=world_size,
        pin_memory=True,
        features=config.data.features,
        coords=config.data.coords,
    )
    valid = dataset["valid"].loader(
        1,
        workers=config.data.workers,
        pairs=needs_pairs,
        features=config.data.features,
        coords=config.data.coords,
    )
    return TrainingData(dataset, config, train, valid, list(features), list(coords))
