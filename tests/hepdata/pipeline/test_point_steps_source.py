import json

import numpy as np
import pytest

import hepdata
from hepdata.errors import InputError
from hepdata.pairs.paper_definition import pair_nearest_others, pair_same_particle


@pytest.fixture(scope="module")
def whole(trackml_events, tmp_path_factory):
    """Every hit, with all columns."""
    return hepdata.build_tracking(trackml_events, tmp_path_factory.mktemp("whole") / "d", split="100/0/0")


@pytest.fixture(scope="module")
def selected(trackml_events, tmp_path_factory):
    return hepdata.build_tracking(
        trackml_events,
        tmp_path_factory.mktemp("selected") / "d",
        split="100/0/0",
        define=[
            "dxy [mm] = hypot(x, y)",
            "far = dxy > 60 or abs(z) > 100",
            "known_pt = where(pt > 0, pt, -1)",
        ],
        select=["far", "abs(eta) < 2"],
        negatives=20,
    )


def test_defined_columns_are_computed_and_described(selected):
    cloud = selected["train"][0]
    np.testing.assert_allclose(cloud.dxy, cloud.r, rtol=1e-6)
    assert (cloud.dxy.dtype, cloud.far.dtype) == (np.float32, bool)
    column = selected.schema.column("dxy")
    assert (column.unit, column.meaning, column.is_label) == ("mm", "hypot(x, y)", False)
    # A column computed from labels is a label: unlabelled datasets lack it, and it is no default input.
    assert selected.schema.column("known_pt").is_label
    assert "dxy" not in [entry.column for entry in selected.schema.features]


def test_selected_points_keep_their_labels_and_are_paired_with_each_other(whole, selected):
    for before, cloud in zip(whole["train"], selected["train"], strict=True):
        kept = ((before.r > 60) | (np.abs(before.z) > 100)) & (np.abs(before.eta) < 2)
        assert 0 < kept.sum() < len(kept)
        for name in before.columns:
            np.testing.assert_array_equal(cloud.columns[name], before.columns[name][kept])
        negatives = pair_nearest_others(cloud.eta, cloud.phi, cloud.particle_id, 20)
        for found, expected in (
            (cloud.positives, pair_same_particle(cloud.particle_id)),
            (cloud.negatives, negatives),
        ):
            np.testing.assert_array_equal(found.ptr, expected.ptr)
            np.testing.assert_array_equal(found.idx, expected.idx)


def test_the_manifest_says_what_was_selected(selected):
    manifest = json.loads((selected.summary.out / "dataset.json").read_text())
    assert manifest["configuration"]["source"]["points"] == {
        "define": {
            "dxy": "hypot(x, y)",
            "far": "dxy > 60 or abs(z) > 100",
            "known_pt": "where(pt > 0, pt, -1)",
        },
        "select": ["far", "abs(eta) < 2"],
        "relabel": False,
    }
    assert manifest["configuration"]["n_dropped"] > 0


def test_relabel_counts_the_kept_hits(trackml_events, whole, tmp_path):
    built = hepdata.build_tracking(
        trackml_events, tmp_path / "d", split="100/0/0", select="layer != 7", relabel=True, pairs="none"
    )
    for before, cloud in zip(whole["train"], built["train"], strict=True):
        assert (cloud.layer != 7).all()
        for particle in np.unique(cloud.particle_id[cloud.particle_id != 0])[:50]:
            own = cloud.particle_id == particle
            assert (cloud.n_hits[own] == own.sum()).all()
            n_layers = len(set(cloud.layer[own].tolist()))
            assert (cloud.n_layers_hit[own] == n_layers).all()
            assert (cloud.is_reconstructable[own] == (n_layers >= 3)).all()
        assert cloud.n_hits.sum() < before.n_hits[before.layer != 7].sum()


def test_an_event_without_selected_points_is_left_out(trackml_events, tmp_path):
    with pytest.raises(InputError, match="no points in any of"):
        hepdata.build_tracking(trackml_events, tmp_path / "d", select=["eta > 99"])
    assert not (tmp_path / "d").exists()


def test_pileup(pileup_file, tmp_path):
    whole = hepdata.build_pileup(pileup_file, tmp_path / "whole", split="100/0/0")
    built = hepdata.build_pileup(
        pileup_file, tmp_path / "some", split="100/0/0", define="mt2 = energy**2 - pt**2", select="pt > 1"
    )
    for before, cloud in zip(whole["train"], built["train"], strict=True):
        np.testing.assert_array_equal(cloud.index_in_source, before.index_in_source[before.pt > 1])
        np.testing.assert_allclose(cloud.mt2, cloud.energy**2 - cloud.pt**2, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"select": "ptt > 1"}, r"`select` 'ptt > 1': found the unknown column 'ptt'.*did you mean 'pt'"),
        ({"select": "pt + 1"}, "found numbers; expected a comparison"),
        ({"define": "pt = r"}, "the name 'pt' of an existing column"),
        ({"define": "sum"}, "no NAME = EXPRESSION"),
        ({"define": "a == b"}, "no NAME = EXPRESSION"),
        ({"define": "a = 1 / (r - r)"}, r"event \d+: found a = inf where r = .*; expected a finite number"),
        ({"relabel": True}, "`relabel`: found no selection"),
        ({"relabel": True, "select": "r > 1", "unlabelled": True}, "found no labels that count hits"),
        ({"select": "pt > 1", "unlabelled": True}, "the unknown column 'pt'"),
    ],
)
def test_misuse_is_one_line_and_leaves_nothing(trackml_events, tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        hepdata.build_tracking(trackml_events, tmp_path / "d", **arguments)
    assert not (tmp_path / "d").exists()
