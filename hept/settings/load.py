"""The configuration of a training run: a preset, changed by single settings, checked before the run starts.

A preset is a YAML file in `presets/`; it lists only values that differ from the defaults in
`hept.settings.train_config`. Its section `about` describes the preset (see `hept.settings.preset_choice`) and
holds no settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from hepdata.errors import InputError, nearest_name
from hepdata.yaml_text import parse_yaml, read_yaml
from hept.settings.train_config import ANY_TASK, TrainConfig, list_keys

PRESETS = Path(__file__).parent / "presets"


def list_presets() -> list[str]:
    """Names of the presets that come with the package."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def read_about(preset: str) -> dict[str, object]:
    """The section `about` of a preset."""
    about = _read_file(PRESETS / f"{preset}.yaml").get("about")
    return about if isinstance(about, dict) else {}


# Changes of settings: values by dotted name, or texts such as "model.n_tables=5".
Settings = Mapping[str, object] | Sequence[str]


def load_config(preset: str, settings: Settings = (), *, task: str | None = None) -> TrainConfig:
    """Load a preset or a YAML file and apply changes.

    Args:
        preset: Its name, or a path that ends in .yaml.
        settings: Changes: `{"epochs": 2, "model.n_tables": 5}`, or `["epochs=2", "model.n_tables=5"]`.
        task: Of the dataset, which settings for any task then take.

    Raises:
        InputError: No such preset, unreadable YAML, an unknown key or an invalid value.
    """
    content = _read(preset)
    for key, value in _list_changes(settings):
        _apply(content, key, value)
    config = check_config(content, where=preset)
    is_given = task is not None and config.task == ANY_TASK
    return config.model_copy(update={"task": task}) if is_given else config


def apply_settings(content: dict[str, object], settings: Settings) -> TrainConfig:
    """A configuration from plain values, with changes; `content` stays as it is.

    Raises:
        InputError: An unknown key or an invalid value.
    """
    changed = deepcopy(content)
    for key, value in _list_changes(settings):
        _apply(changed, key, value)
    return check_config(changed, where="settings")


def check_config(content: object, *, where: object) -> TrainConfig:
    """Make a configuration from plain values.

    Raises:
        InputError: An unknown key or an invalid value.
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
                expected="a known setting",
                remedy=nearest_setting(key),
            ) from error
        if first["type"] == "missing":
            raise InputError(
                where,
                found=f"no {key}",
                expected="settings that extend a preset, or name their task",
                remedy="add a line such as 'extends: tracking-6k', or choose a preset of hept-train presets",
            ) from error
        if first["type"] == "model_type":
            below = [name for name in list_keys() if name.startswith(f"{key}.")]
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
            remedy=f"set {key} to another value",
        ) from error


def _read(preset: str, extended_by: tuple[Path, ...] = ()) -> dict[str, object]:
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
    if path.resolve() in extended_by:
        raise InputError(
            path,
            found="a file that extends itself" if len(extended_by) == 1 else "files that extend each other",
            expected="'extends' with another preset",
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
        content = read_yaml(path)
    except (OSError, ValueError) as error:
        raise InputError(
            path,
            found=" ".join(str(error).split())[:300],
            expected="a YAML file of settings",
            remedy="name a preset or correct the file",
        ) from error
    if not isinstance(content, dict):
        raise InputError(
            path,
            found=f"a {type(content).__name__}",
            expected="settings as `key: value`",
            remedy="correct the file",
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
    for text in [settings] if isinstance(settings, str) else settings:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(
                f"setting {text}",
                found="no '='",
                expected="KEY=VALUE",
                remedy="write for instance model.n_tables=5",
            )
        try:
            yield key.strip(), parse_yaml(value)
        except ValueError as error:
            raise InputError(
                f"setting {text}"[:200],
                found=f"a value that is not YAML ({str(error)[:200]})",
                expected="KEY=VALUE",
                remedy="quote the value",
            ) from error


def _apply(content: dict[str, object], key: str, value: object) -> None:
    known = list_keys()
    if key not in known and key not in {name.partition(".")[0] for name in known}:
        raise InputError(
            f"setting {key}={value}",
            found=f"the unknown setting {key!r}",
            expected="a known setting",
            remedy=nearest_setting(key),
        )
    *sections, last = key.split(".")
    values = content
    for section in sections:
        below = values.setdefault(section, {})
        if not isinstance(below, dict):
            # The file has a plain value instead of a section; `check_config` reports it.
            return
        values = below
    before = values.get(last)
    values[last] = _merge(before, value) if isinstance(before, dict) and isinstance(value, dict) else value


def nearest_setting(key: str) -> str:
    """A remedy for an unknown setting; perhaps only its section is missing: `lr` is `optimizer.lr`."""
    known = list_keys()
    by_last = {name.rpartition(".")[2]: name for name in known}
    last = key.rpartition(".")[2]
    if last in by_last:
        return f"did you mean {by_last[last]!r}?"
    if get_close_matches(key, known, n=1):
        return nearest_name(key, known)
    close = get_close_matches(last, by_last, n=1)
    return f"did you mean {by_last[close[0]]!r}?" if close else nearest_name(key, known)
