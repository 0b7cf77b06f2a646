"""Raw Delphes file in, cleaned file out: the answers must lie beside the particles they are for."""

import awkward as ak
import numpy as np
import pyarrow.parquet as pq
import pytest
import uproot

import hepdata
from hepdata.errors import InputError
from hepdata.simulate.pileup_file import write_pileup
from hept.evaluation.cleaner import COLUMNS, clean
from hept.model.weights import load_model
from hept.settings.load import load_config
from hept.training.trainer import fit

SMALL = [
    "model.n_layers=1",
    "model.hidden_dim=8",
    "model.n_heads=2",
    "model.block_size=20",
    "model.n_regions=9",
    "epochs=1",
]


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    path = tmp_path_factory.mktemp("raw") / "sample.root"
    write_pileup(path, events=12, pileup=3, seed=2)
    return path


@pytest.fixture(scope="module")
def trained(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    data = hepdata.build_pileup(sample, folder / "data", workers=1)
    fit(load_config("pileup-best", SMALL), data, folder / "run")
    return load_model(folder / "run")


def test_a_friend_tree_in_the_order_of_the_source(sample, trained, tmp_path):
    out = tmp_path / "cleaned.root"
    result = clean(trained, str(sample), out)
    with uproot.open(out) as file, uproot.open(sample) as source:
        found = {name: file["cleaned"][f"cleaned_{name}"].array() for name in COLUMNS}
        leaves = {
            name: source["Delphes"][f"PF.{name}"].array()
            for name in ("Px", "Py", "Pz", "E", "PT", "Charge", "IsPU")
        }
        assert file["cleaned"].num_entries == result.n_events == 12
    assert ak.num(found["score"]).tolist() == ak.num(leaves["PT"]).tolist()
    assert result.n_particles == ak.sum(ak.num(leaves["PT"]))
    weight = ak.flatten(found["weight"]).to_numpy()
    flat = {name: ak.flatten(values).to_numpy() for name, values in leaves.items()}
    charged = flat["Charge"] != 0
    in_acceptance = np.isfinite(ak.flatten(found["score"]).to_numpy())
    np.testing.assert_array_equal(weight[charged & in_acceptance], flat["IsPU"][charged & in_acceptance] == 0)
    soft = ~charged & (flat["PT"] <= 0.9)
    assert (weight[soft] == 0).all()
    scored = ~charged & ~soft & in_acceptance
    score = ak.flatten(found["score"]).to_numpy()[scored]
    calibrated = trained.calibration(np.log(score / (1 - score)), flat["PT"][scored])
    np.testing.assert_allclose(weight[scored], calibrated, atol=1e-4)
    assert trained.calibration.slope != 1
    assert scored.any()
    for name, leaf in (("px", "Px"), ("py", "Py"), ("pz", "Pz"), ("e", "E")):
        np.testing.assert_allclose(
            ak.flatten(found[name]).to_numpy(), weight * flat[leaf], rtol=1e-3, atol=1e-4
        )


def test_scores_are_those_of_the_model(sample, trained, tmp_path):
    clean(trained, str(sample), tmp_path / "cleaned.parquet")
    rows = pq.read_table(tmp_path / "cleaned.parquet").to_pydict()
    assert list(rows) == list(COLUMNS)
    data = hepdata.build_pileup(sample, tmp_path / "data", split="0/0/1", workers=1)
    for event, cloud in enumerate(data["test"]):
        expected = trained(cloud).reshape(-1).sigmoid().numpy()
        np.testing.assert_allclose(
            np.array(rows["score"][event])[cloud.columns["index_in_source"]], expected, atol=1e-5
        )


def test_the_scope_is_that_of_the_training(sample, tmp_path):
    data = hepdata.build_pileup(sample, tmp_path / "data", scored_pt=0.0, workers=1)
    fit(load_config("pileup-best", SMALL), data, tmp_path / "run")
    clean(load_model(tmp_path / "run"), str(sample), tmp_path / "cleaned.root")
    with uproot.open(tmp_path / "cleaned.root") as file, uproot.open(sample) as source:
        weight, tree = file["cleaned"]["cleaned_weight"].array(), source["Delphes"]
        is_soft = (tree["PF.Charge"].array() == 0) & (tree["PF.PT"].array() < 0.9)
    assert ak.mean(weight[is_soft] > 0) > 0.9


def write_branches(path, branches):
    """`{branch: {leaf: [values of each event]}}` as a Delphes tree."""
    columns = {
        f"{branch}.{leaf}": ak.Array(v) for branch, leaves in branches.items() for leaf, v in leaves.items()
    }
    with uproot.recreate(path) as file:
        tree = file.mktree(
            "Delphes",
            {name: column.type.content for name, column in columns.items()},
            counter_name=lambda counted: f"n{counted.replace('.', '_')}",
        )
        tree.extend(columns)
    return path


def draw_leaves(seed, energy="PT", **integers):
    """Three events; the last particle of each lies along the beam, outside the acceptance."""
    rng = np.random.default_rng(seed)
    lengths = (6, 9, 4)
    pt = [rng.uniform(0.5, 20, n) for n in lengths]
    eta = [np.append(rng.uniform(-4, 4, n - 1), 999.9) for n in lengths]
    leaves = {energy: pt, "Eta": eta, "Phi": [rng.uniform(-3, 3, n) for n in lengths]}
    leaves["E"] = [p * np.cosh(np.minimum(e, 5)) for p, e in zip(pt, eta, strict=True)]
    leaves["Eem"] = leaves["Ehad"] = [energies / 2 for energies in leaves["E"]]
    integers = {
        name: [np.resize(values, n).astype(np.int32) for n in lengths] for name, values in integers.items()
    }
    return {name: [v.astype(np.float32) for v in values] for name, values in leaves.items()} | integers


def check_momenta(source, out, branches):
    """Each momentum is the weight times that of the particle at the same place of the source."""
    with uproot.open(out) as file, uproot.open(source) as raw:
        found = {name: file["cleaned"][f"cleaned_{name}"].array() for name in COLUMNS}

        def merge(leaves):
            return ak.concatenate([raw["Delphes"][leaf].array() for leaf in leaves], axis=1)

        pt = merge([f"{branch}.{leaf}" for branch, leaf in branches.items()])
        phi, energy, eta = (
            merge([f"{branch}.{leaf}" for branch in branches]) for leaf in ("Phi", "E", "Eta")
        )
    assert ak.num(found["score"]).tolist() == ak.num(pt).tolist()
    is_within = np.abs(eta) < 100
    assert ak.all(np.isfinite(found["score"]) == is_within)
    assert ak.all(found["weight"][~is_within] == 0)
    assert ak.sum(found["weight"] > 0) > 5
    for name, momentum in (("px", pt * np.cos(phi)), ("py", pt * np.sin(phi)), ("e", energy)):
        np.testing.assert_allclose(
            ak.flatten(found[name]), ak.flatten(found["weight"] * momentum), rtol=1e-4, atol=1e-4
        )


def test_energy_flow_and_candidates_in_the_order_of_the_source(trained, tmp_path):
    flow = {
        "EFlowTrack": draw_leaves(1, Charge=[1, -1], PID=[211, -211], IsPU=[0, 0, 1]),
        "EFlowPhoton": draw_leaves(2, "ET", IsPU=[0, 1]),
        "EFlowNeutralHadron": draw_leaves(3, "ET", IsPU=[1, 0]),
    }
    candidates = {"ParticleFlowCandidate": draw_leaves(4, Charge=[1, 0, 0], PID=[211, 22, 0], IsPU=[0, 1, 0])}
    for name, branches in (("eflow", flow), ("particle-flow-candidate", candidates)):
        source = write_branches(tmp_path / f"{name}.root", branches)
        clean(trained, str(source), tmp_path / f"{name}_cleaned.root", branches=name)
        energies = {branch: "PT" if "PT" in leaves else "ET" for branch, leaves in branches.items()}
        check_momenta(source, tmp_path / f"{name}_cleaned.root", energies)


def test_mistakes_are_named(sample, trained, tmp_path):
    with pytest.raises(InputError, match=r"ends in \.root or \.parquet"):
        clean(trained, str(sample), tmp_path / "cleaned.txt")
    with pytest.raises(InputError, match=r"no such file|no file"):
        clean(trained, str(tmp_path / "none.root"), tmp_path / "cleaned.root")
    assert list(tmp_path.iterdir()) == []
    unlabelled = write_branches(
        tmp_path / "data.root", {"ParticleFlowCandidate": draw_leaves(4, Charge=[1, 0], PID=[211, 22])}
    )
    with pytest.raises(InputError, match=r"data\.root, branches particle-flow-candidate: found no 'vertex'"):
        clean(trained, str(unlabelled), tmp_path / "cleaned.root")
    assert not (tmp_path / "cleaned.root").exists()


def test_a_tracking_model_is_refused(sample, tracking_dataset, small_config, tmp_path):
    fit(small_config("tracking-demo"), tracking_dataset, tmp_path / "run")
    with pytest.raises(InputError, match="a model for tracking"):
        clean(load_model(tmp_path / "run"), str(sample), tmp_path / "cleaned.root")
