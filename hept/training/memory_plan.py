"""The memory that a training step will take on a GPU: settings and a dataset enter, bytes by purpose leave.

The formula counts the tensors that HEPT keeps for its backward pass. A test compares it with the memory that
is counted on a stand-in for a GPU, see `benchmarks.traffic`.

Axes: N points of the largest batch, L layers, H heads, D hidden dimensions, P coordinates after angles were
lifted to two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hepdata.errors import InputError
from hepdata.loader.dataset import Dataset
from hept.attention.definition import HEPTAttention
from hept.model.build import build_network
from hept.model.network import Network, count_parameters
from hept.model.transformer import HEPT
from hept.objectives.objective import find_objective
from hept.runs.training_data import TrainingData, open_training_data
from hept.settings.train_config import ModelConfig, TrainConfig

FLOAT, LONG = 4, 8
# Of the head, see `hept.model.heads.EmbeddingHead`.
HEAD_LAYERS = 4


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of a training step on each device.

    Attributes:
        n_points: Points of the largest batch.
        n_pairs: Pairs of such a batch, from the mean of the dataset.
        parameters: Weights and their gradients.
        optimizer: Two moments of each weight.
        batch: Inputs and labels, of this batch and of the next one, which is copied meanwhile.
        pairs: Pair lists, likewise.
        activations: What the backward pass needs of the forward pass.
        workspace: Largest temporary tensor of the backward pass, in the head.
    """

    n_points: int
    n_pairs: int
    parameters: int
    optimizer: int
    batch: int
    pairs: int
    activations: int
    workspace: int

    @property
    def total(self) -> int:
        """Sum of all parts."""
        held = self.parameters + self.optimizer + self.batch + self.pairs
        return held + self.activations + self.workspace


def plan_step(config: TrainConfig, dataset: Dataset, *, world_size: int = 1) -> MemoryPlan:
    """Memory of a step over the largest batch of the first epoch.

    Raises:
        InputError: The dataset does not fit the settings, or the model is not HEPT.
    """
    if config.model.kind != "hept":
        raise InputError(
            f"model.kind={config.model.kind}",
            found="no formula for the memory of this model",
            expected="hept",
            remedy="train a few steps of it; too little memory is told in one line",
        )
    data = open_training_data(config, dataset, world_size=world_size)
    is_embedding = find_objective(data.target.objective).is_embedding
    network = build_network(config.model, data.features, data.coords, is_embedding=is_embedding)
    n_points = _find_largest(data, world_size)
    statistics = dataset.manifest.statistics("train")
    per_point = (statistics.n_positives + statistics.n_negatives) / max(statistics.n_points, 1)
    n_pairs = round(per_point * n_points) if data.train.layout.pairs else 0
    n_columns = len(dataset["train"].column_names)
    of_point = FLOAT * (len(data.features) + len(data.coords) + n_columns) + LONG
    n_parameters = count_parameters(network)
    return MemoryPlan(
        n_points=n_points,
        n_pairs=n_pairs,
        parameters=2 * FLOAT * n_parameters,
        optimizer=2 * FLOAT * n_parameters,
        batch=2 * n_points * of_point,
        pairs=2 * (FLOAT * n_pairs + (2 * LONG * n_points if n_pairs else 0)),
        activations=n_points * count_kept(config.model, network, is_sparing=config.checkpoint_activations),
        workspace=n_points * FLOAT * config.model.head_width,
    )


def count_kept(model: ModelConfig, network: Network, *, is_sparing: bool = False) -> int:
    """Bytes a point that the forward pass keeps for the backward pass."""
    body = network.body
    if not isinstance(body, HEPT):
        raise TypeError(f"got {type(body).__name__}, need HEPT")
    attention = body.blocks[0].get_submodule("attention")
    lifted = len(attention.omega_of_coord) if isinstance(attention, HEPTAttention) else 0
    hidden, heads, ff = model.hidden_dim, model.n_heads, model.ff_dim or model.hidden_dim
    masks = 2 * hidden if model.dropout else 0
    # Queries, keys, values and outputs; coordinates and normalisations; orders of queries and keys.
    attends = FLOAT * heads * (4 * hidden + lifted + 1) + 2 * LONG * model.n_tables * heads
    # Two layer norms and their statistics, two sums, the copy for the head, and the feed-forward.
    layer = attends + FLOAT * (5 * hidden + 4 + ff) + masks
    out = model.out_dim if body.head.__class__.__name__ == "EmbeddingHead" else hidden // 2
    ends = FLOAT * (HEAD_LAYERS * 2 * model.head_width + ff + 2 * hidden + out) + out
    if not is_sparing:
        return model.n_layers * layer + ends
    # Each layer leaves its input and its copy for the head, and is computed again, with its gradients, when
    # what the head kept is gone.
    return 2 * FLOAT * hidden * model.n_layers + max(ends, 2 * layer)


def _find_largest(data: TrainingData, world_size: int) -> int:
    points = data.dataset["train"].rows()["n_points"]
    plans = [replace(data.train.plan, rank=rank) for rank in range(world_size)]
    return max((int(points[batch].sum()) for plan in plans for batch in plan.batches(0)), default=0)
