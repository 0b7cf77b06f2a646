"""Fifteen lines of a notebook, from simulation to a report; commands have the same parameters."""

import inspect
import subprocess
import sys

import click
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

import hepdata
import hept
from hepdata.pipeline.build import BuildOptions
from hept_cli import data, train

COMMANDS = {
    "simulate tracking": hepdata.simulate_tracking,
    "simulate pileup": hepdata.simulate_pileup,
    "build tracking": hepdata.build_tracking,
    "build pileup": hepdata.build_pileup,
    "build table": hepdata.build_table,
    "inspect": hepdata.inspect,
    "import": hepdata.import_pyg,
    "validate": hepdata.validate,
    "convert": hepdata.convert,
    "export": hepdata.export_padded,
    "merge": hepdata.merge,
    "plot": hepdata.plot,
    "view": hepdata.view,
    "publish": hepdata.publish,
    "fit": hept.fit,
    "settings": hept.list_settings,
    "describe": hept.describe,
    "eval": hept.evaluate,
    "predict": hept.predict,
    "score": hept.score_tracks,
    "tune-clustering": hept.tune_clustering,
    "tune": hept.tune,
    "compare-runs": hept.compare_runs,
    "index-runs": hept.index_runs,
    "compare": hept.compare,
    "doctor": hept.doctor,
}
# Parameters that only a command has: output options, and steps after the function.
OF_COMMANDS = {"json_path", "no_report", "leaves", "plan"}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """Run the fifteen lines in their own folder; return their variables and the folder."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        hepdata.simulate_tracking("raw", events=12, hits_per_event=300)
        ds = hepdata.build_tracking("raw", "tracks")
        info = ds.info()
        cloud = ds["train"][0]
        table = cloud.to_pandas()
        figure = cloud.plot()
        batch = next(iter(ds["train"].loader(2)))
        run = hept.fit(ds, "runs/a", preset="tracking-demo", settings={"epochs": 2}, threads=1)
        metrics = hept.evaluate(run, ds)
        model = hept.load_model("runs/a")
        of_cloud, of_batch = model(cloud), model(batch)
        written = hept.predict(model, ds, "hits.parquet")
        report = hept.write_report(run)
        return {name: value for name, value in locals().items() if name not in ("patch", "tmp_path_factory")}


def test_the_fifteen_lines_run(notebook):
    assert isinstance(notebook["ds"], hepdata.Dataset)
    assert "point clouds" in str(notebook["info"])
    assert isinstance(notebook["table"], pd.DataFrame)
    assert list(notebook["table"]["eta"]) == notebook["cloud"].eta.tolist()
    assert notebook["figure"]._repr_png_().startswith(b"\x89PNG")
    assert notebook["run"].result.epochs == 2
    assert len(hept.open_run(notebook["folder"] / "runs" / "a").history()) == 2
    assert 0 <= notebook["metrics"]["ap@0.9"] <= 1
    assert pq.read_metadata(notebook["folder"] / "hits.parquet").num_rows == notebook["written"].n_points
    assert (notebook["folder"] / notebook["report"]).read_text().startswith("<!")


def test_a_model_answers_alike_for_a_cloud_a_batch_and_a_split(notebook):
    model, ds = notebook["model"], notebook["ds"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(notebook["folder"])
        first, second = ds["train"][0:2]
        of_split = model(ds["train"])
        assert len(of_split) == len(ds["train"])
        assert of_split[0].equal(notebook["of_cloud"])
        torch.testing.assert_close(notebook["of_batch"], torch.cat([model(first), model(second)]))
        # The result does not depend on the inputs with which the batch was made.
        other = next(iter(ds["train"].loader(2, features=["eta"], coords=["eta", "phi"], scaled=False)))
        assert model(other).equal(notebook["of_batch"])
        bare = next(iter(ds["train"].loader(1, select=["eta", "phi"])))
        with pytest.raises(hepdata.InputError, match=r"no column 'r'.* the input 'r' of the model"):
            model(bare)


def test_a_cloud_in_other_units_is_refused(notebook):
    from dataclasses import replace

    cloud = notebook["cloud"]
    columns = tuple(replace(c, unit="cm") if c.name == "r" else c for c in cloud.schema.columns)
    other = replace(cloud, schema=replace(cloud.schema, columns=columns))
    with pytest.raises(hepdata.InputError, match=r"unit 'cm'.* 'mm'"):
        notebook["model"](other)


def test_coordinates_and_features_of_cloud_and_batch_are_the_same(notebook):
    cloud, batch = notebook["cloud"], notebook["batch"]
    np.testing.assert_array_equal(cloud.coords, batch.coords[: cloud.n_points].numpy())
    np.testing.assert_array_equal(cloud.features, batch.features[: cloud.n_points].numpy())


@pytest.mark.parametrize("name", ["ds", "cloud", "batch", "run", "model"])
def test_representations_are_short_and_have_html(notebook, name):
    shown = repr(notebook[name])
    assert "tensor(" not in shown
    assert "array(" not in shown
    assert len(shown) < 300
    if name != "model":
        assert "<table>" in notebook[name]._repr_html_()


def test_a_split_shows_itself(notebook):
    split = notebook["ds"]["train"]
    assert f"{len(split)} clouds" in repr(split)
    assert "pairs" in repr(split)
    assert "pseudorapidity" in split._repr_html_()


@pytest.mark.parametrize("name", ["cloud", "batch"])
def test_tab_completes_columns(notebook, name):
    assert {"eta", "particle_id", "coords", "features"} <= set(dir(notebook[name]))


@pytest.mark.parametrize("module", [hepdata, hept])
def test_every_name_is_listed_documented_and_there(module):
    assert set(dir(module)) == {*module.__all__, "__doc__", "__version__"}
    for name in module.__all__:
        assert getattr(module, name).__doc__
        assert name in module.__doc__


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_has_the_parameters_of_its_function(line):
    command: click.Command = data.group if line.split()[0] in data.COMMANDS else train.group
    for name in line.split():
        command = command.get_command(click.Context(command), name)
    own = {param.name for param in command.params} - OF_COMMANDS
    function = set(inspect.signature(COMMANDS[line]).parameters) - {"progress"}
    if "options" in function:
        function = function - {"options"} | set(BuildOptions.__annotations__)
    if line == "predict":
        # A Delphes file in place of a dataset is cleaned.
        function |= set(inspect.signature(hept.clean).parameters) - {"source", "progress"}
        # For raw events, the command finds tracks.
        function |= set(inspect.signature(hept.find_raw_tracks).parameters) - {"raw", "progress"}
    assert own == function


@pytest.mark.parametrize(
    "code",
    [
        "import hepdata; dir(hepdata)",
        "import hept; dir(hept)",
        "import hepdata; hepdata.open_dataset",
        "import hept_cli.data",
        "import hept_cli.train",
        "import hept; hept.fit, hept.list_settings()",
    ],
)
def test_names_come_without_torch(code):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print('torch' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("program", ["data", "train"])
def test_help_answers_without_heavy_packages(program):
    code = (
        f"import sys; from hept_cli.{program} import main; sys.argv = ['hept', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print({'torch', 'pandas', 'pyarrow', 'pydantic', 'matplotlib', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Commands:" in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"
