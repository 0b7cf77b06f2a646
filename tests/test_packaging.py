"""Files in `packaging/` agree with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
# Where conda-forge has another name.
OF_CONDA = {"torch": "pytorch", "isal": "python-isal", "matplotlib": "matplotlib-base"}


def test_the_conda_recipe_has_every_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts = [re.fullmatch(r"([\w-]+)(.*)", entry).groups() for entry in project["dependencies"]]
    wanted = {(OF_CONDA.get(name.lower(), name.lower()), bounds) for name, bounds in parts}
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    listed = {tuple((*entry.split(" ", 1), "")[:2]) for entry in recipe["requirements"]["run"]}
    assert listed - {("python", "")} == wanted
