"""Every setting of a training run, with type, limits, default and meaning.

`hept-train settings` prints these descriptions. Network modules do not depend on these classes: they take
plain arguments.
"""

from __future__ import annotations

from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from hepdata.inputs import parse_choice
from hepdata.schema import SCORED_PT
from hept.attention import N_REGIONS
from hept.devices.choice import Precision
from hept.paper.systems.catalog import find_system

# Task of settings that fit every dataset with their objective.
ANY_TASK = "any"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelConfig(_Section):
    """The network."""

    kind: str = Field(
        default="hept",
        description="System: hept, another of the paper, such as gravnet, or your own as module:Class.",
    )
    kernel: Literal["gaussian", "dot"] = Field(
        default="gaussian",
        description="Attention kernel: gaussian is exp(−½‖q−k‖²) of the paper, dot is exp(q·k).",
    )
    tied_qk: bool = Field(default=False, description="Whether queries and keys share their projection.")
    encode_place: bool | None = Field(
        default=None,
        description="Whether coordinates are also added to the point features; null: only with kernel dot.",
    )
    n_layers: int = Field(default=4, ge=1, description="Transformer layers.")
    hidden_dim: int = Field(default=24, ge=1, description="Width of a point's features, and of each head.")
    ff_dim: int | None = Field(
        default=None, ge=1, description="Width inside the feed-forward networks; null: equal to hidden_dim."
    )
    head_width: int = Field(
        default=256,
        ge=1,
        description="Width inside the network that makes embeddings of all layers' outputs.",
    )
    n_heads: int = Field(default=8, ge=1, description="Attention heads.")
    block_size: int = Field(default=100, ge=1, description="Points per block; attention is within blocks.")
    n_tables: int = Field(
        default=3, ge=1, description="Hash tables (OR); each sorts all points into blocks independently."
    )
    n_regions: int = Field(
        default=N_REGIONS,
        ge=1,
        description="Number of regions of the (η, φ) plane that the hashing separates (AND).",
    )
    backend: Literal["auto", "plain", "native", "triton"] = Field(
        default="auto",
        description="Kernel of HEPT's attention: native on a CPU, triton on a GPU, plain torch elsewhere; "
        "auto chooses. All give the same numbers.",
    )
    n_neighbors: int = Field(default=64, ge=1, description="Neighbours of a point in graph networks.")
    out_dim: int = Field(default=12, ge=1, description="Dimensions of the embedding; 1 for classifiers.")
    dropout: float = Field(default=0.1, ge=0, lt=1, description="Dropout probability in training.")
    quiet_start: bool = Field(
        default=False, description="Whether the output of attention is zero at the start of training."
    )
    normalise: bool = Field(default=False, description="Whether embeddings are scaled to length 1.")
    start_width: float | None = Field(
        default=None,
        gt=0,
        description="Initial width of the gaussian kernel in the (η, φ) plane; null: random.",
    )

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        return find_system(kind).name


class DataConfig(_Section):
    """Inputs of the network, and how they are read.

    An input is a name, or a mapping with fields of `hepdata.schema.ModelInput`; see `hepdata.inputs`.
    """

    features: list[str | dict[str, object]] | None = Field(
        default=None,
        description="Features: names, or mappings such as {column: phi, scale: 0.318}; null: the dataset's.",
    )
    coords: list[str | dict[str, object]] | None = Field(
        default=None, description="Coordinates, as for features; points are hashed by the first two."
    )
    workers: int = Field(
        default=0, ge=0, description="Threads that prefetch batches; 0 still prefetches one batch."
    )

    @field_validator("features", "coords")
    @classmethod
    def _are_inputs(cls, choices: list[object] | None, info: ValidationInfo) -> list[object] | None:
        for choice in choices or []:
            parse_choice(choice, f"data.{info.field_name}")
        return choices


class LossConfig(_Section):
    """The loss: InfoNCE for pairs; focal loss, cross-entropy or the energy fraction for classes."""

    tau: float = Field(default=0.05, gt=0, description="Temperature of InfoNCE.")
    similarity: Literal["published", "paper"] = Field(
        default="published",
        description="Similarity of two embeddings: as in the authors' code, or exp(−d²/τ) as in the paper.",
    )
    random_negatives: float = Field(
        default=0.2, ge=0, description="Random negative pairs in training, as a fraction of the others."
    )
    negatives: Literal["stored", "mined", "both"] = Field(
        default="stored",
        description="Negatives of InfoNCE: those of the dataset, the nearest ones in the embedding at each "
        "step, or both. A dataset without pair lists can be trained with mined.",
    )
    n_mined: int = Field(default=256, ge=1, description="Mined negatives of a point.")
    mining_window: int | None = Field(
        default=None,
        ge=1,
        description="Mine among so many points before and after a point along the dataset's curve through "
        "(η, φ); null: in the whole cloud.",
    )
    pt_min: float = Field(
        default=SCORED_PT, ge=0, description="Only particles above this pT in GeV count in InfoNCE."
    )
    low_pt_part: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Part of the particles between pt_min and 0.9 GeV that count in InfoNCE, others at every "
        "training step.",
    )
    kind: Literal["focal", "cross-entropy", "fraction"] = Field(
        default="focal",
        description="Loss of classes: focal as published, cross-entropy, or fraction: squared error of the "
        "energy fraction from the leading collision.",
    )
    pt_power: float = Field(
        default=0.0, ge=0, le=2, description="Points count in cross-entropy and fraction by pT to this power."
    )
    missing_pt: float = Field(
        default=0.0, ge=0, description="Factor of a term for the error of an event's missing pT."
    )
    alpha: float = Field(default=0.25, gt=0, description="Factor of the focal loss, for both classes.")
    gamma: float = Field(default=2.0, ge=0, description="How much the focal loss down-weights easy points.")


class AugmentConfig(_Section):
    """Random changes of the training clouds, others in every epoch, given by the seed alone."""

    rotate: bool = Field(default=False, description="Turn every cloud about the beam by a random angle.")
    reflect: bool = Field(default=False, description="Reflect every second cloud, by chance, at z = 0.")
    drop: float = Field(
        default=0.0, ge=0, lt=1, description="Probability of a point to be dropped, with its pairs."
    )
    wedge: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Part of the full turn in φ that is kept of every cloud, beginning at a random angle: "
        "smaller clouds, and more steps in the same time.",
    )


class OptimizerConfig(_Section):
    """The optimiser and its learning-rate schedule."""

    kind: Literal["adam", "adamw", "muon"] = Field(
        default="adam",
        description="Optimiser; muon is for matrices and leaves other parameters to adamw. It takes the "
        "same rates.",
    )
    lr: float = Field(default=1e-3, gt=0, description="Learning rate.")
    weight_decay: float = Field(
        default=0.0, ge=0, description="L2 penalty on the weights; decoupled in adamw and muon."
    )
    schedule: Literal["constant", "step", "plateau", "cosine"] = Field(
        default="constant",
        description="Learning-rate schedule: step lowers it every step_epochs, plateau after patience "
        "validations without improvement, cosine along a cosine to zero at the last step or at max_minutes.",
    )
    factor: float = Field(
        default=0.5, gt=0, le=1, description="Factor by which the schedules step and plateau lower the rate."
    )
    step_epochs: int = Field(default=500, ge=1, description="Epochs between two steps of the schedule step.")
    patience: int = Field(
        default=20,
        ge=0,
        description="Validations without improvement before the schedule plateau lowers the rate.",
    )
    warmup_steps: int = Field(
        default=0, ge=0, description="Optimiser steps during which the rate rises from zero to lr."
    )
    clip_norm: float | None = Field(
        default=None, gt=0, description="Gradients are scaled down to this norm; null: no limit."
    )


class TrainConfig(_Section):
    """A whole run, as written to the run folder."""

    task: str = Field(description="Task of the datasets to train on; any: that of the dataset.")
    seed: int = Field(
        default=42,
        ge=0,
        lt=2**63,
        description="Seed of the weights, the order of clouds, dropout and random negatives.",
    )
    epochs: int = Field(default=100, ge=1, description="Passes over the training split.")
    max_minutes: float | None = Field(
        default=None,
        gt=0,
        description="Validate and stop after this time, in all calls together; null: no limit.",
    )
    batch_size: int = Field(default=1, ge=1, description="Clouds per batch and process.")
    batch_points: int | None = Field(
        default=None,
        ge=1,
        description="Points per batch and process: as many clouds as fit; null: batch_size decides.",
    )
    accumulate: int = Field(default=1, ge=1, description="Batches per optimiser step.")
    early_stopping: int | None = Field(
        default=None, ge=1, description="Stop after this many validations without improvement; null: never."
    )
    ema_decay: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Decay of a moving average of the weights, which is validated and saved; null: none.",
    )
    checkpoint_activations: bool = Field(
        default=False, description="Recompute activations in the backward pass: less memory, more time."
    )
    compile: bool = Field(default=False, description="Whether to compile the network with torch.compile.")
    precision: Precision = Field(
        default="32-true", description="Floating-point precision, as named by Lightning Fabric."
    )
    deterministic: bool = Field(
        default=False,
        description="Whether the same run on the same GPU gives the same losses to the last digit; slower. "
        "A CPU always does.",
    )
    validate_every: int = Field(default=1, ge=1, description="Epochs between two validations.")
    save_every_steps: int | None = Field(
        default=None,
        ge=1,
        description="Also save the state every this many steps; null: only after every epoch.",
    )
    save_every_minutes: float | None = Field(
        default=10.0, gt=0, description="Also save the state every this many minutes; null: never by time."
    )
    keep_last: int = Field(default=2, ge=1, description="Number of newest saved states to keep.")
    logger: Literal["csv", "tensorboard", "wandb", "mlflow"] = Field(
        default="tensorboard",
        description="Where figures go besides the tables metrics.csv and steps.csv; csv: nowhere else.",
    )
    max_loss: float = Field(default=1e6, gt=0, description="A larger loss stops the run as diverged.")
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    augment: AugmentConfig = AugmentConfig()
    loss: LossConfig = LossConfig()
    optimizer: OptimizerConfig = OptimizerConfig()

    def to_yaml(self) -> str:
        """The resolved configuration with every key."""
        return yaml.safe_dump(self.model_dump(), sort_keys=False)


def list_keys() -> list[str]:
    """Dotted names of all settings."""
    return list(list_fields())


def list_fields() -> dict[str, FieldInfo]:
    """The fields of all settings by dotted name, with type, default and description."""
    fields: dict[str, FieldInfo] = {}
    for name, found in TrainConfig.model_fields.items():
        section = found.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            fields |= {f"{name}.{inner}": below for inner, below in section.model_fields.items()}
        else:
            fields[name] = found
    return fields
