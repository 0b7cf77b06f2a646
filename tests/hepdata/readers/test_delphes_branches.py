"""Maps of branches and leaves: standard ones, those of a user, and what they lack."""

from pathlib import Path

import pytest

from hepdata.errors import InputError
from hepdata.readers.delphes_branches import BranchMap, Collection, check_map, map_collection, read_map

GEN = frozenset({"PT", "Eta", "Phi", "Charge", "PID", "IsPU", "E", "Px", "Py", "Rapidity", "Mass"})
TRACK = frozenset({"PT", "Eta", "Phi", "Charge", "PID", "Mass", "Particle"})
TOWER = frozenset({"ET", "Eta", "Phi", "E"})


def write_map(folder: Path, text: str) -> Path:
    path = folder / "map.yaml"
    path.write_text(text)
    return path


def test_standard_leaves():
    collection = map_collection("PF", {"PF": GEN})
    assert collection.leaves["energy"] == "E"
    assert collection.label == "IsPU"
    assert (collection.pid, collection.charge) == (None, None)


def test_tower_takes_et_for_pt_and_fixed_species():
    collection = map_collection("EFlowPhoton", {"EFlowPhoton": TOWER}, pid=22, charge=0)
    assert collection.leaves["pt"] == "ET"
    assert (collection.pid, collection.charge, collection.label) == (22, 0, None)
    assert collection.is_neutral


@pytest.mark.parametrize(
    ("leaves", "others", "label"),
    [
        (TRACK | {"IsPU", "HardEnergyFraction"}, {}, "IsPU"),
        (TRACK | {"HardEnergyFraction"}, {}, "HardEnergyFraction"),
        (TRACK, {"Particle": frozenset({"fUniqueID"})}, "TRef"),
        (TRACK, {}, None),
    ],
)
def test_best_label(leaves, others, label):
    assert map_collection("Track", {"Track": leaves, **others}).label == label


def test_map_of_a_user(tmp_path):
    path = write_map(
        tmp_path,
        "collections:\n"
        "  - branch: Mine\n"
        "    leaves: {pt: Momentum, eta: Eta, phi: Phi, charge: Q}\n"
        "    label: HardEnergyFraction\n"
        "  - branch: Light\n"
        "    leaves: {pt: ET, eta: Eta, phi: Phi}\n"
        "    pid: 22\n"
        "    charge: 0\n",
    )
    branches = read_map(path)
    assert branches.name == "map.yaml"
    assert branches.collections[0].leaves["pt"] == "Momentum"
    assert branches.collections[1] == Collection("Light", {"pt": "ET", "eta": "Eta", "phi": "Phi"}, 22, 0)
    assert not branches.is_labelled
    check_map(
        branches,
        {"Mine": frozenset({"Momentum", "Eta", "Phi", "Q", "HardEnergyFraction"}), "Light": TOWER},
        "file",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("collections: [", "while parsing"),
        ("collections: []", "collections is empty"),
        ("branches: []", "branches: Extra inputs are not permitted|collections: Field required"),
        ("collections: [{branch: PF, leaves: {speed: V}}]", "collections.0.leaves.speed"),
        ("collections: [{branch: PF, leaves: {pt: PT}, label: Guess}]", "collections.0.label"),
        ("just words", "Input should be"),
    ],
)
def test_bad_maps(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_map(write_map(tmp_path, text))


def test_missing_map(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_map(tmp_path / "none.yaml")


def make_map(**changes) -> BranchMap:
    leaves = {"pt": "PT", "eta": "Eta", "phi": "Phi", "charge": "Charge"}
    return BranchMap("mine", (Collection(**{"branch": "PF", "leaves": leaves, "label": None, **changes}),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"branch": "FP"}, r"found no branch 'FP'.*branches in the file: PF"),
        ({"leaves": {"pt": "PT", "eta": "Eta", "phi": "Fi", "charge": "Charge"}}, "found no leaf PF.Fi"),
        ({"label": "HardEnergyFraction"}, "found no leaf PF.HardEnergyFraction"),
        ({"leaves": {"pt": "PT", "eta": "Eta"}}, "branch 'PF' without phi, charge"),
    ],
)
def test_maps_that_do_not_fit(changes, message):
    with pytest.raises(InputError, match=message):
        check_map(make_map(**changes), {"PF": GEN}, "file.root")


def test_reference_needs_generator_particles():
    with pytest.raises(InputError, match=r"found no leaf Particle.fUniqueID"):
        check_map(make_map(label="TRef"), {"PF": GEN | {"Particle"}}, "file.root")
