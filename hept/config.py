"""What a training run is: a preset, changed by `--set key=value`, checked before anything starts.

A preset is a YAML file in `hept/presets/`; it names only what differs from the defaults below. Its section
`about` is no setting: it says what the preset is for (see `hept.preset_choice`). Modules never see a
configuration: the trainer takes values out of it and passes them as plain arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from hepdata.errors import InputError, nearest_name
from hepdata.inputs import parse_choice
from hept.systems.catalog import find_system
from hept.yaml_text import parse_yaml

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

    kind: str = "hept"
    kernel: Literal["gaussian", "dot"] = "gaussian"
    tied_qk: bool = False
    encode_place: bool | None = None
    n_layers: int = Field(default=4, ge=1)
    hidden_dim: int = Field(default=24, ge=1)
    ff_dim: int | None = Field(default=None, ge=1)
    n_heads: int = Field(default=8, ge=1)
    block_size: int = Field(default=100, ge=1)
    n_tables: int = Field(default=3, ge=1)
    n_regions: int = Field(default=150, ge=1)
    n_neighbors: int = Field(default=64, ge=1)
    out_dim: int = Field(default=12, ge=1)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    quiet_start: bool = False
    start_width: float | None = Field(default=None, gt=0)

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        return find_system(kind).name


class DataConfig(_Section):
    """What the network reads of a dataset.

    An input is a name, or a mapping with fields of `hepdata.schema.ModelInput`; see `hepdata.inputs`.
    """

    features: list[str | dict[str, object]] | None = None
    coords: list[str | dict[str, object]] | None = None
    workers: int = Field(default=0, ge=0)

    @field_validator("features", "coords")
    @classmethod
    def _are_inputs(cls, choices: list[object] | None, info: ValidationInfo) -> list[object] | None:
        for choice in choices or []:
            parse_choice(choice, f"data.{info.field_name}")
        return choices


class LossConfig(_Section):
    """What is minimised: InfoNCE for pairs, focal loss for classes."""

    tau: float = Field(default=0.05, gt=0)
    similarity: Literal["published", "paper"] = "published"
    random_negatives: float = Field(default=0.2, ge=0)
    pt_min: float = Field(default=0.9, ge=0)
    alpha: float = Field(default=0.25, gt=0)
    gamma: float = Field(default=2.0, ge=0)


class OptimizerConfig(_Section):
    """Adam and the course of its learning rate."""

    lr: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    schedule: Literal["constant", "step", "plateau", "cosine"] = "constant"
    factor: float = Field(default=0.5, gt=0, le=1)
    step_epochs: int = Field(default=500, ge=1)
    patience: int = Field(default=20, ge=0)
    warmup_steps: int = Field(default=0, ge=0)
    clip_norm: float | None = Field(default=None, gt=0)


class TrainConfig(_Section):
    """A whole run, as written to the run folder."""

    task: str
    seed: int = Field(default=42, ge=0, lt=2**63)
    epochs: int = Field(default=100, ge=1)
    max_minutes: float | None = Field(default=None, gt=0)
    batch_size: int = Field(default=1, ge=1)
    accumulate: int = Field(default=1, ge=1)
    early_stopping: int | None = Field(default=None, ge=1)
    ema_decay: float | None = Field(default=None, gt=0, lt=1)
    checkpoint_activations: bool = False
    compile: bool = False
    precision: Literal["32-true", "64-true", "bf16-mixed", "16-mixed"] = "32-true"
    validate_every: int = Field(default=1, ge=1)
    save_every_steps: int | None = Field(default=None, ge=1)
    save_every_minutes: float | None = Field(default=10.0, gt=0)
    keep_last: int = Field(default=2, ge=1)
    max_loss: float = Field(default=1e6, gt=0)
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


def load_config(preset: str, overrides: Sequence[str] = ()) -> TrainConfig:
    """A preset, or a YAML file of one's own, with `key.key=value` changes on top.

    Raises:
        InputError: No such preset, unreadable YAML, an unknown key or a value that does not fit.
    """
    content = _read(preset)
    for override in overrides:
        _apply(content, override)
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
                remedy=_nearest_setting(key),
            ) from error
        if first["type"] == "model_type":
            below = [name for name in _known_keys() if name.startswith(f"{key}.")]
            raise InputError(
                where,
                found=f"{key} = {first.get('input')!r}"[:200],
                expected=f"settings below {key!r}",
                remedy=f"set one of {', '.join(below)}",
            ) from error
        raise InputError(
            where,
            found=f"{key} = {first.get('input')!r}"[:200],
            expected=first["msg"][0].lower() + first["msg"][1:],
            remedy=f"change it, for instance with --set {key}=VALUE",
        ) from error


def _read(preset: str, extended_by: tuple[Path, ...] = ()) -> dict[str, object]:
    path = Path(preset)
    if path.suffix not in (".yaml", ".yml"):
        known = list_presets()
        if preset not in known:
            raise InputError(
                f"--preset {preset}",
                found="no preset of this name",
                expected="the name of a preset, or a .yaml file",
                remedy=nearest_name(preset, known),
            )
        path = PRESETS / f"{preset}.yaml"
    if path.resolve() in extended_by:
        raise InputError(
            path,
            found="a file that extends itself" if len(extended_by) == 1 else "files that extend each other",
            expected="`extends` with another preset",
            remedy="remove the key, or name a preset of hept-train presets",
        )
    content = _read_file(path)
    content.pop("about", None)
    base = content.pop("extends", None)
    if base is None:
        return content
    return _merge(_read(str(base), (*extended_by, path.resolve())), content)


def _read_file(path: Path) -> dict[str, object]:
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            path,
            found=" ".join(str(error).split())[:300],
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


def _apply(content: dict[str, object], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise InputError(
            f"--set {override}",
            found="no '='",
            expected="KEY=VALUE",
            remedy="write for instance model.n_tables=5",
        )
    key = key.strip()
    known = _known_keys()
    if key not in known and key not in {name.partition(".")[0] for name in known}:
        raise InputError(
            f"--set {override}",
            found=f"the unknown setting {key!r}",
            expected="a known one",
            remedy=_nearest_setting(key),
        )
    *sections, last = key.split(".")
    place = content
    for section in sections:
        below = place.setdefault(section, {})
        if not isinstance(below, dict):
            # A file with a plain value where a section belongs: the check of the whole says so.
            return
        place = below
    try:
        place[last] = parse_yaml(value)
    except ValueError as error:
        raise InputError(
            f"--set {override}"[:200],
            found=f"a value that is not YAML ({str(error)[:200]})",
            expected="KEY=VALUE",
            remedy="quote the value",
        ) from error


def _nearest_setting(key: str) -> str:
    """A remedy for an unknown setting, which may be right but for its section: `lr` is `optimizer.lr`."""
    if key in MOVED:
        return MOVED[key]
    known = _known_keys()
    by_last = {name.rpartition(".")[2]: name for name in known}
    last = key.rpartition(".")[2]
    if last in by_last:
        return f"did you mean {by_last[last]!r}?"
    if get_close_matches(key, known, n=1):
        return nearest_name(key, known)
    close = get_close_matches(last, by_last, n=1)
    return f"did you mean {by_last[close[0]]!r}?" if close else nearest_name(key, known)


def _known_keys() -> list[str]:
    keys = []
    for name, field in TrainConfig.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            keys += [f"{name}.{inner}" for inner in section.model_fields]
        else:
            keys.append(name)
    return keys
