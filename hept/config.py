"""What a training run is: a preset, changed by single settings, checked before anything starts.

A preset is a YAML file in `hept/presets/`; it names only what differs from the defaults below. Its section
`about` is no setting: it says what the preset is for (see `hept.preset_choice`). Modules never see a
configuration: the trainer takes values out of it and passes them as plain arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from hepdata.errors import InputError, nearest_name
from hepdata.inputs import parse_choice
from hept.systems.catalog import find_system

PRESETS = Path(__file__).parent / "presets"
# Settings of earlier versions that are now fields of an input, and how to say the same.
MOVED = {
    "data.standardise": 'write data.features: [{column: "*", standardise: true}]',
    "data.signed_log": "write data.features: [{column: pt, compression: log}, …]",
    "model.periodic_phi": 'leave it out, or for false write data.coords: [{column: "*", period: null}]',
}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelConfig(_Section):
    """The network."""

    kind: str = Field(default="hept", description="System: hept, or another of the paper, such as gravnet.")
    kernel: Literal["gaussian", "dot"] = Field(
        default="gaussian",
        description="Attention kernel: gaussian is exp(−½‖q−k‖²) of the paper, dot is exp(q·k).",
    )
    tied_qk: bool = Field(default=False, description="Whether queries and keys share their projection.")
    encode_place: bool | None = Field(
        default=None,
        description="Whether coordinates enter the point features too; null: with the kernel dot only.",
    )
    n_layers: int = Field(default=4, ge=1, description="Transformer layers.")
    hidden_dim: int = Field(default=24, ge=1, description="Width of a point's features, and of each head.")
    ff_dim: int | None = Field(
        default=None, ge=1, description="Width inside the feed-forward networks; null: that of hidden_dim."
    )
    n_heads: int = Field(default=8, ge=1, description="Attention heads.")
    block_size: int = Field(default=100, ge=1, description="Points of a block, within which all attend.")
    n_tables: int = Field(
        default=3, ge=1, description="Hash tables (OR); each sorts all points into blocks anew."
    )
    n_regions: int = Field(
        default=150,
        ge=1,
        description="Regions of the (η, φ) plane that the hashing keeps apart (AND); more are smaller.",
    )
    n_neighbors: int = Field(default=64, ge=1, description="Neighbours of a point in graph networks.")
    out_dim: int = Field(default=12, ge=1, description="Dimensions of the embedding; classifiers have one.")
    dropout: float = Field(default=0.1, ge=0, lt=1, description="Share of values dropped in training.")
    quiet_start: bool = Field(
        default=False, description="Whether attention begins at zero, so that each point begins by itself."
    )
    start_width: float | None = Field(
        default=None,
        gt=0,
        description="Width of the gaussian kernel in the (η, φ) plane at the beginning; null: as drawn.",
    )

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        return find_system(kind).name


class DataConfig(_Section):
    """What the network reads of a dataset.

    An input is a name, or a mapping with fields of `hepdata.schema.ModelInput`; see `hepdata.inputs`.
    """

    features: list[str | dict[str, object]] | None = Field(
        default=None,
        description="Features: names, or mappings as {column: phi, scale: 0.318}; null: the dataset's own.",
    )
    coords: list[str | dict[str, object]] | None = Field(
        default=None, description="Coordinates, likewise; points are hashed by the first two."
    )
    workers: int = Field(
        default=0, ge=0, description="Threads that read batches ahead; 0 still reads one ahead."
    )

    @field_validator("features", "coords")
    @classmethod
    def _are_inputs(cls, choices: list[object] | None, info: ValidationInfo) -> list[object] | None:
        for choice in choices or []:
            parse_choice(choice, f"data.{info.field_name}")
        return choices


class LossConfig(_Section):
    """What is minimised: InfoNCE for pairs, focal loss for classes."""

    tau: float = Field(default=0.05, gt=0, description="Temperature of InfoNCE.")
    similarity: Literal["published", "paper"] = Field(
        default="published",
        description="Of two embeddings: as in the authors' code, or exp(−d²/τ) as in the paper's text.",
    )
    random_negatives: float = Field(
        default=0.2, ge=0, description="Random negative pairs in training, as a share of the stored pairs."
    )
    pt_min: float = Field(
        default=0.9, ge=0, description="Only particles above this pT in GeV count in InfoNCE."
    )
    alpha: float = Field(default=0.25, gt=0, description="Weight of the positive class in the focal loss.")
    gamma: float = Field(default=2.0, ge=0, description="How much the focal loss discounts easy points.")


class OptimizerConfig(_Section):
    """Adam and the course of its learning rate."""

    lr: float = Field(default=1e-3, gt=0, description="Learning rate.")
    weight_decay: float = Field(default=0.0, ge=0, description="L2 penalty on the weights.")
    schedule: Literal["constant", "step", "plateau", "cosine"] = Field(
        default="constant",
        description="Course of the learning rate: lower it every step_epochs, after patience epochs without "
        "gain, or along a cosine to zero.",
    )
    factor: float = Field(
        default=0.5, gt=0, le=1, description="By which the schedules step and plateau lower the rate."
    )
    step_epochs: int = Field(default=500, ge=1, description="Epochs between two steps of the schedule step.")
    patience: int = Field(
        default=20, ge=0, description="Validations without gain before the schedule plateau lowers the rate."
    )
    warmup_steps: int = Field(
        default=0, ge=0, description="Optimiser steps in which the rate rises from zero to lr."
    )
    clip_norm: float | None = Field(
        default=None, gt=0, description="Largest norm of the gradient; longer ones are cut. null: no limit."
    )


class TrainConfig(_Section):
    """A whole run, as written to the run folder."""

    task: str = Field(description="Task of the datasets that the settings are for.")
    seed: int = Field(default=42, ge=0, description="Of weights, order of clouds, dropout and negatives.")
    epochs: int = Field(default=100, ge=1, description="Passes over the training split.")
    max_minutes: float | None = Field(
        default=None, gt=0, description="Stop after the epoch that reaches this time; null: no limit."
    )
    batch_size: int = Field(default=1, ge=1, description="Clouds of a batch, for each process.")
    accumulate: int = Field(default=1, ge=1, description="Batches of one optimiser step.")
    early_stopping: int | None = Field(
        default=None, ge=1, description="Stop after so many validations without gain; null: never."
    )
    ema_decay: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Decay of a moving average of the weights, which is validated and kept; null: none.",
    )
    checkpoint_activations: bool = Field(
        default=False, description="Compute activations again in the backward pass: less memory, more time."
    )
    compile: bool = Field(default=False, description="Whether to compile the network with torch.compile.")
    precision: Literal["32-true", "64-true", "bf16-mixed", "16-mixed"] = Field(
        default="32-true", description="Of the arithmetic, in the words of Lightning Fabric."
    )
    validate_every: int = Field(default=1, ge=1, description="Epochs between two validations.")
    save_every_steps: int | None = Field(
        default=None,
        ge=1,
        description="Also save the state after so many steps; null: after every epoch only.",
    )
    max_loss: float = Field(default=1e6, gt=0, description="A larger loss stops the run as diverged.")
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    loss: LossConfig = LossConfig()
    optimizer: OptimizerConfig = OptimizerConfig()

    def to_yaml(self) -> str:
        """The resolved configuration, every key in it."""
        return yaml.safe_dump(self.model_dump(), sort_keys=False)


def list_presets() -> list[str]:
    """Names of the presets that come with the package."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def read_about(preset: str) -> object:
    """What the file of a preset says about itself."""
    return _read_file(PRESETS / f"{preset}.yaml").get("about")


# Changes of settings: values by dotted name, or texts such as "model.n_tables=5".
Settings = Mapping[str, object] | Sequence[str]


def load_config(preset: str, settings: Settings = ()) -> TrainConfig:
    """A preset, or a YAML file of one's own, with changes on top.

    Args:
        preset: Its name, or a path that ends in .yaml.
        settings: What to change: `{"epochs": 2, "model.n_tables": 5}`, or `["epochs=2", "model.n_tables=5"]`.

    Raises:
        InputError: No such preset, unreadable YAML, an unknown key or a value that does not fit.
    """
    content = _read(preset)
    for key, value in _list_changes(settings):
        _apply(content, key, value)
    return check_config(content, where=preset)


def check_config(content: object, *, where: object) -> TrainConfig:
    """A configuration from plain values.

    Raises:
        InputError: An unknown key or a value that does not fit.
    """
    try:
        return TrainConfig.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        path = [str(part) for part in first["loc"]]
        key = ".".join(path)
        if first["type"] == "extra_forbidden":
            raise InputError(
                where,
                found=f"the unknown setting {key!r}",
                expected="a known one",
                remedy=nearest_setting(key),
            ) from error
        if first["type"] == "model_type":
            below = [name for name in list_keys() if name.startswith(f"{key}.")]
            raise InputError(
                where,
                found=f"{key} = {first.get('input')!r}",
                expected=f"settings below {key!r}",
                remedy=f"set one of {', '.join(below)}",
            ) from error
        raise InputError(
            where,
            found=f"{key} = {first.get('input')!r}",
            expected=first["msg"][0].lower() + first["msg"][1:],
            remedy=f"set {key} to another value",
        ) from error


def _read(preset: str) -> dict[str, object]:
    path = Path(preset)
    if path.suffix not in (".yaml", ".yml"):
        known = list_presets()
        if preset not in known:
            raise InputError(
                f"preset {preset}",
                found="no preset of this name",
                expected="the name of a preset, or a .yaml file",
                remedy=nearest_name(preset, known),
            )
        path = PRESETS / f"{preset}.yaml"
    content = _read_file(path)
    content.pop("about", None)
    base = content.pop("extends", None)
    return _merge(_read(str(base)), content) if base is not None else content


def _read_file(path: Path) -> dict[str, object]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(
            path,
            found=" ".join(str(error).split()),
            expected="a YAML file of settings",
            remedy="name a preset or mend the file",
        ) from error
    if not isinstance(content, dict):
        raise InputError(
            path,
            found=f"a {type(content).__name__}",
            expected="settings as `key: value`",
            remedy="mend the file",
        )
    return content


def _merge(base: dict[str, object], changes: dict[str, object]) -> dict[str, object]:
    merged = dict(base)
    for key, value in changes.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _list_changes(settings: Settings) -> Iterator[tuple[str, object]]:
    if isinstance(settings, Mapping):
        yield from settings.items()
        return
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(
                f"setting {text}",
                found="no '='",
                expected="KEY=VALUE",
                remedy="write for instance model.n_tables=5",
            )
        try:
            yield key.strip(), yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise InputError(
                f"setting {text}",
                found="a value that is not YAML",
                expected="KEY=VALUE",
                remedy="quote the value",
            ) from error


def _apply(content: dict[str, object], key: str, value: object) -> None:
    known = list_keys()
    if key not in known and key not in {name.partition(".")[0] for name in known}:
        raise InputError(
            f"setting {key}={value}",
            found=f"the unknown setting {key!r}",
            expected="a known one",
            remedy=nearest_setting(key),
        )
    *sections, last = key.split(".")
    place = content
    for section in sections:
        below = place.setdefault(section, {})
        if not isinstance(below, dict):
            # A file with a plain value where a section belongs: the check of the whole says so.
            return
        place = below
    before = place.get(last)
    place[last] = _merge(before, value) if isinstance(before, dict) and isinstance(value, dict) else value


def nearest_setting(key: str) -> str:
    """A remedy for an unknown setting, which may be right but for its section: `lr` is `optimizer.lr`."""
    if key in MOVED:
        return MOVED[key]
    known = list_keys()
    by_last = {name.rpartition(".")[2]: name for name in known}
    last = key.rpartition(".")[2]
    if last in by_last:
        return f"did you mean {by_last[last]!r}?"
    if get_close_matches(key, known, n=1):
        return nearest_name(key, known)
    close = get_close_matches(last, by_last, n=1)
    return f"did you mean {by_last[close[0]]!r}?" if close else nearest_name(key, known)


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
