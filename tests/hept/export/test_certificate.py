import numpy as np
import pytest

from hepdata.errors import InputError, JobError
from hept import export_model
from hept.export import certificate, export
from hept.export.certificate import compare, run_alone


def test_differences_are_counted_by_points():
    ours = np.full((200, 2), 2.0, np.float32)
    theirs = ours.copy()
    theirs[0, 1] += 1.0  # one point of 200 is beyond the 99th percentile
    check = compare((200,), [(ours[:100], theirs[:100]), (ours[100:], theirs[100:])])
    assert (check.draws, check.scale, check.median, check.p99, check.largest) == (2, 2.0, 0.0, 0.0, 0.5)
    theirs[:3, 0] -= 0.5
    assert compare((200,), [(ours, theirs)]).p99 == 0.25
    # Of fewer than 100 points every one counts.
    assert compare((23,), [(ours[:23], theirs[:23])]).p99 == 0.5


@pytest.mark.parametrize("wrong", [np.zeros((3, 1), np.float32), np.full((2, 1), np.nan, np.float32)])
def test_outputs_of_another_shape_or_without_value_are_no_equality(wrong):
    check = compare((2,), [(np.ones((2, 1), np.float32), wrong)])
    assert not check.p99 <= certificate.TOLERANCE


def test_an_export_that_differs_leaves_nothing(run_of, tmp_path, monkeypatch):
    monkeypatch.setattr(certificate, "TOLERANCE", -1.0)
    out = tmp_path / "model.pt2"
    with pytest.raises(
        JobError, match=r"model\.pt2: found outputs that differ from torch by .* nothing was written"
    ):
        export_model(run_of(kind="mlp"), out, quick=True, threads=1)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_does_not_run_is_told_in_one_line(tmp_path):
    broken = tmp_path / "model.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(JobError, match="does not run alone"):
        run_alone(broken, [{"offsets": np.array([0, 1])}], 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"out": "model.h5"}, r"suffix '\.h5'.* hept-data export"),
        ({"out": "model.onnx", "aot": True}, r"`aot`.* a \.pt2 file"),
        ({"out": "nowhere/model.onnx"}, "no folder"),
        ({"out": "model.onnx", "inputs": "cooked"}, "'raw' or 'prepared'"),
    ],
)
def test_wrong_arguments(run_of, tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        export_model(run_of(), **{**arguments, "out": tmp_path / arguments["out"]})


@pytest.mark.parametrize(("name", "options"), [("model.onnx", {}), ("model.pt2", {"aot": True})])
def test_an_old_torch_is_told_in_one_line(run_of, tmp_path, monkeypatch, name, options):
    monkeypatch.setattr(export, "version", lambda package: "2.5.1+cu124")
    with pytest.raises(InputError, match=r"torch 2\.5\.1.* expected torch 2\.6 or newer"):
        export_model(run_of(), tmp_path / name, **options)
