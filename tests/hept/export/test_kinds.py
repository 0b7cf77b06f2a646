"""Every kind of model is exported, or says in one line why not."""

import numpy as np
import pytest
import torch

from hepdata.errors import InputError
from hept import export_model, load_model
from hept.export.sample import draw_sample
from hept.export.trace import UNTRACEABLE, to_tensors, trace
from hept.paper.systems.catalog import NAMES


@pytest.mark.parametrize("kind", [name for name in NAMES if name not in UNTRACEABLE])
def test_a_traced_program_holds_for_any_number_of_points_and_clouds(run_of, kind):
    trained = load_model(run_of(kind=kind))
    _, program = trace(trained, "prepared")
    module = program.module()
    for sizes in ((1,), (70, 0, 40)):
        sample = draw_sample(trained.features, trained.coords, sizes, seed=3)
        features, coords, offsets = map(torch.from_numpy, (sample.features, sample.coords, sample.offsets))
        with torch.no_grad():
            found = module(to_tensors(sample.select("prepared")), offsets)
            expected = trained.network(features, coords, offsets)
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("kind", UNTRACEABLE)
def test_a_kind_without_export_says_why_in_one_line(run_of, tmp_path, kind):
    with pytest.raises(InputError, match=f"kind '{kind}', which cannot be exported: it ") as caught:
        export_model(run_of(kind=kind), tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_scores_that_are_drawn_have_no_export(run_of, tmp_path):
    with pytest.raises(InputError, match="kind 'random', which cannot be exported"):
        export_model(run_of("pileup", "random"), tmp_path / "model.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [name for name in NAMES if name not in {*UNTRACEABLE, "hept"}])
def test_every_kind_that_is_traced_becomes_onnx(run_of, tmp_path, kind):
    done = export_model(run_of(kind=kind), tmp_path / "model.onnx", quick=True, threads=1)
    assert done.certificate.worst.p99 <= 1e-3
