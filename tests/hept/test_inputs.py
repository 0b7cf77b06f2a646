"""A model's inputs are values: training and evaluation read the same inputs."""

import csv
import gzip
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hepdata.errors import InputError
from hepdata.loader.dataset import open_dataset
from hepdata.schema import TRACKING
from hepdata.storage.dataset.manifest import Manifest
from hept.evaluation.evaluator import evaluate
from hept.model.weights import load_model, read_card
from hept.runs.folder import RunFolder
from hept.runs.training_data import open_training_data, resolve_inputs
from hept.settings.load import check_config, load_config
from hept.training.trainer import fit

DATA = Path(__file__).parents[1] / "data"


@st.composite
def choices(draw, columns):
    column = draw(st.sampled_from(columns))
    fields = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "scale": st.sampled_from([1e-3, 0.318, 1.0, -2.0]),
                "compression": st.sampled_from(["none", "log"]),
                "standardise": st.booleans(),
                "period": st.none(),
            },
        )
    )
    return {"column": column, **fields} if fields or draw(st.booleans()) else column


FEATURES = ["*", "r", "phi", "z", "eta", "u", "v", "layer", "lx", "gphi"]
COORDS = ["*", "eta", "phi", "r", "z", "u", "gphi"]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_training_and_eval_read_the_same(data, tracking_dataset, small_config, tmp_path_factory):
    features = data.draw(st.none() | st.lists(choices(FEATURES), min_size=1, max_size=4), "features")
    coords = data.draw(st.none() | st.lists(choices(COORDS), min_size=2, max_size=4), "coords")
    config = small_config("tracking-demo", "epochs=1", "optimizer.lr=1e-9", "max_loss=1e30")
    config = check_config(
        {**config.model_dump(), "data": {"features": features, "coords": coords}}, where="test"
    )
    run = tmp_path_factory.mktemp("run") / "a"
    fit(config, tracking_dataset, run)
    with (run / "metrics.csv").open() as file:
        (row,) = csv.DictReader(file)
    found = evaluate(run, tracking_dataset, "valid")
    # The queries of all thresholds are summed in another grouping than those of one.
    assert found["ap@0.9"] == pytest.approx(float(row["valid_ap@0.9"]), rel=1e-12)
    assert found["loss"] == float(row["valid_loss"])
    # Given explicitly with every field, it is the same choice.
    trained = load_model(run)
    spelled = {
        "features": [asdict(entry) for entry in trained.features],
        "coords": [asdict(entry) for entry in trained.coords],
    }
    again = check_config({**config.model_dump(), "data": spelled}, where="test")
    assert resolve_inputs(again, open_dataset(tracking_dataset)) == (trained.features, trained.coords)


def rewrite(dataset, **changes):
    manifest = Manifest.read(dataset)
    manifest.model_copy(update=changes).write(dataset)


def test_a_changed_scale_in_a_manifest_changes_no_evaluation(make_dataset, small_config, tmp_path):
    dataset = make_dataset()
    run = fit(small_config(), dataset, tmp_path / "run").run
    before = evaluate(run, dataset)
    rewrite(
        dataset,
        features=[replace(entry, scale=7.0) for entry in TRACKING.features],
        coordinates=[replace(entry, scale=0.01) for entry in TRACKING.coordinates],
    )
    assert evaluate(run, dataset) == before
    # A resumed run also keeps its original inputs.
    data = open_training_data(small_config(), dataset, inputs=RunFolder(run).read_inputs())
    assert (data.features, data.coords) == (load_model(run).features, load_model(run).coords)
    # A new run on the changed dataset has the changed scales and records them.
    other = fit(small_config("tracking-demo", "epochs=1"), dataset, tmp_path / "other").run
    assert {entry.scale for entry in load_model(other).features} == {7.0}
    assert {entry["scale"] for entry in json.loads((other / "run.json").read_text())["features"]} == {7.0}


def test_a_dataset_in_other_units_is_refused(make_dataset, small_config, tmp_path):
    dataset = make_dataset()
    run = fit(small_config("tracking-demo", "epochs=1"), dataset, tmp_path / "run").run
    columns = [replace(c, unit="cm") if c.name == "z" else c for c in TRACKING.columns]
    features = [replace(f, unit="cm") if f.column == "z" else f for f in TRACKING.features]
    rewrite(dataset, columns=columns, features=features)
    with pytest.raises(
        InputError, match=r"'z' with the unit 'cm'; expected the unit 'mm' of the input of the model"
    ):
        evaluate(run, dataset)
    with pytest.raises(InputError, match=r"'z' with the unit 'cm'; expected the unit 'mm' of .* this run"):
        fit(small_config(), dataset, run, resume=True)


def test_a_preset_takes_the_columns_that_a_dataset_has(make_dataset, small_config, tmp_path):
    absent = {"charge_frac", "leta", "lphi", "lx", "ly", "lz", "geta", "gphi"}

    def forget(cloud):
        return replace(cloud, columns={k: v for k, v in cloud.columns.items() if k not in absent})

    dataset = make_dataset(change=forget, schema=TRACKING.without(frozenset(absent)))
    run = fit(small_config("tracking-demo", "epochs=1"), dataset, tmp_path / "run").run
    assert [entry.column for entry in load_model(run).features] == ["r", "phi", "z", "eta", "u", "v", "layer"]


def test_classes_beyond_those_of_the_model_are_refused(make_dataset, small_config, tmp_path):
    dataset = make_dataset("tracking")
    changes = ("epochs=1", "data.features=[eta, {column: layer, n_classes: 4}]")
    with pytest.raises(
        InputError, match=r"found layer up to 5; expected the classes 0 … 3 of this run.*least 6"
    ):
        fit(small_config("tracking-demo", *changes), dataset, tmp_path / "run")


def test_one_coordinate_is_too_few(tracking_dataset, small_config, tmp_path):
    with pytest.raises(InputError, match=r"data.coords: found 1 coordinate; expected at least two"):
        fit(small_config("tracking-demo", "data.coords=[eta]"), tracking_dataset, tmp_path / "run")


def test_run_folder_and_weights_say_the_same_and_resuming_does_not_learn_anew(
    make_dataset, small_config, tmp_path
):
    dataset = make_dataset()
    run = fit(small_config("tracking-demo", "epochs=1"), dataset, tmp_path / "run").run
    trained = load_model(run)
    assert RunFolder(run).read_inputs() == (trained.features, trained.coords)
    assert any(entry.standardise and entry.spread != 1 for entry in trained.features)
    fit(small_config("tracking-demo", "epochs=2"), dataset, run, resume=True)
    assert load_model(run).features == trained.features


def test_weights_that_only_name_their_inputs_are_refused(tmp_path):
    path = tmp_path / "old.safetensors"
    path.write_bytes(gzip.decompress((DATA / "names-tracking.safetensors.gz").read_bytes()))
    for read in (load_model, read_card):
        with pytest.raises(
            InputError, match=r"found weights of version 1, .*; train again with this version"
        ):
            read(path)


def test_a_run_without_inputs_is_not_resumed(tracking_dataset, small_config, tmp_path):
    run = fit(small_config("tracking-demo", "epochs=1"), tracking_dataset, tmp_path / "run").run
    description = json.loads((run / "run.json").read_text())
    description["features"] = [entry["column"] for entry in description["features"]]
    # Runs of earlier versions have no checksum.
    del description["sha256"]
    (run / "run.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match=r"run.json: found no inputs of the model.*only evaluate the run"):
        fit(small_config(), tracking_dataset, run, resume=True)
    assert evaluate(run, tracking_dataset)["ap@0.9"] > 0


def test_inputs_of_a_yaml_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("extends: tracking-demo\ndata: {coords: [eta, phi, {column: phi, scale: 0.318}]}\n")
    config = load_config(str(path))
    assert config.data.coords == ["eta", "phi", {"column": "phi", "scale": 0.318}]
    assert yaml.safe_load(config.to_yaml())["data"]["coords"] == config.data.coords
    with pytest.raises(
        InputError, match=r"data.coords: found the unknown field 'scle'.*did you mean 'scale'"
    ):
        load_config(str(path), ["data.coords=[{column: phi, scle: 2}]"])
