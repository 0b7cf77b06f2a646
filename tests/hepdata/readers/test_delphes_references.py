"""References of neutral particles: read as uproot reads them, and labels counted by hand."""

import struct
from itertools import pairwise

import numpy as np
import pytest

import hepdata
from hepdata.errors import InputError
from hepdata.readers.delphes import open_tree
from hepdata.readers.delphes_labels import share_of_leading
from hepdata.readers.delphes_references import read_references


def as_root_writes_it(references, name=b""):
    """The bytes of one TRefArray."""
    body = struct.pack(">HHII", 1, 1, 0, 0x03000000) + bytes([len(name)]) + name
    body += struct.pack(f">iiH{len(references)}I", len(references), 0, 1, *references)
    return struct.pack(">I", 0x40000000 | len(body)) + body


def pack(lists, **options):
    return list(b"".join(as_root_writes_it(each, **options) for each in lists))


LISTS = [[[7], [8, 9, 10], []], [], [[7, 11]]]


@pytest.mark.parametrize("name", [b"", b"towers"])
def test_lists_are_those_that_were_written(write_delphes, name):
    path = write_delphes({"Tower": [{"Particles": pack(event, name=name)} for event in LISTS]})
    with open_tree(path) as tree:
        for start, stop in ((0, 3), (1, 3), (0, 1), (1, 2)):
            offsets, (ptr, references) = read_references(tree["Tower.Particles"], start, stop)
            flat = [each for event in LISTS[start:stop] for each in event]
            assert np.diff(offsets).tolist() == [len(event) for event in LISTS[start:stop]]
            assert [references[a:b].tolist() for a, b in pairwise(ptr)] == flat


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-1], lambda b: [*b[:3], 0, *b[4:]], lambda b: [255] * len(b), lambda b: [*b, 1, 2]],
)
def test_damaged_bytes_are_an_error(write_delphes, damage):
    path = write_delphes({"Tower": [{"Particles": damage(pack(LISTS[0]))}]})
    with open_tree(path) as tree, pytest.raises(ValueError, match=r"references|out of bounds"):
        read_references(tree["Tower.Particles"], 0, 1)


@pytest.mark.parametrize(
    ("file", "branch"),
    [
        ("coffea_delphes.root", "EFlowPhoton"),
        ("coffea_delphes.root", "Tower"),
        ("ttbar_PU50_PF_small_6ev.root", "ParticleFlowCandidate"),
    ],
)
def test_real_lists_are_those_of_uproot(real_file, file, branch):
    with open_tree(str(real_file(f"data/delphes/{file}"))) as tree:
        offsets, (ptr, references) = read_references(tree[f"{branch}.Particles"], 1, 4)
        expected = tree[f"{branch}.Particles"].array(entry_start=1, entry_stop=4, library="np")
        assert np.diff(offsets).tolist() == [len(event) for event in expected]
        found = np.split(references, ptr[1:-1])
        for one, other in zip(found, [each for event in expected for each in event], strict=True):
            np.testing.assert_array_equal(one, other.refs)


def test_shares_of_real_neutrals(real_file):
    """Against a literal count, with a random half of the particles called pileup, and some taken away."""
    with open_tree(str(real_file("data/delphes/coffea_delphes.root"))) as tree:
        n = 5
        offsets, references = read_references(tree["EFlowPhoton.Particles"], 0, n)
        names = ["Particle.fUniqueID", "Particle.E", "EFlowPhoton.E"]
        arrays = tree.arrays(names, entry_stop=n, library="ak", how=dict)
    rng = np.random.default_rng(0)
    sizes = [len(event) for event in arrays["Particle.E"]]
    kept = [np.flatnonzero(rng.random(size) < 0.9) for size in sizes]
    pileup = [rng.integers(0, 2, len(each)) for each in kept]
    ids = [np.asarray(arrays["Particle.fUniqueID"][i])[kept[i]] for i in range(n)]
    energy = [np.asarray(arrays["Particle.E"][i])[kept[i]] for i in range(n)]
    measured = [np.asarray(arrays["EFlowPhoton.E"][i]) for i in range(n)]
    ptr = np.cumsum([0, *map(len, kept)])
    found = share_of_leading(
        (offsets, np.arange(offsets[-1])),
        references,
        (ptr, np.concatenate(ids)),
        np.concatenate(energy),
        (ptr, np.concatenate(pileup)),
        np.concatenate(measured),
    )
    expected = []
    lists = np.split(references[1], references[0][1:-1])
    for event in range(n):
        by_id = {int(i) & 0xFFFFFF: k for k, i in enumerate(ids[event])}
        for number in range(offsets[event], offsets[event + 1]):
            rows = [by_id.get(int(ref)) for ref in lists[number]]
            there = [row for row in rows if row is not None]
            total = sum(energy[event][row] for row in there)
            leading = sum(energy[event][row] for row in there if not pileup[event][row])
            if None in rows:
                total = max(total, measured[event][number - offsets[event]])
            expected.append(leading / total if total else 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert 0.1 < np.mean(found) < 0.9


@pytest.fixture
def energy_flow(write_delphes):
    """Two events; a photon of two particles, one of pileup, and others."""
    tracks = {"PT": [5.0, 2.0], "Eta": [0.1, 0.2], "Phi": [0, 1], "Charge": [1, -1], "PID": [211, -211]}
    tracks |= {"P": [5.1, 2.1], "Mass": [0.14, 0.14], "Particle": [1, 99]}
    photons = {"ET": [10.0, 4.0, 3.0], "Eta": [0.0, 0.0, 0.0], "Phi": [0.5, 1.5, 2.5], "E": [10.0, 4.0, 3.0]}
    hadrons = {"ET": [8.0], "Eta": [0.0], "Phi": [3.0], "E": [8.0]}
    generated = {"fUniqueID": [2**24 + i for i in (1, 2, 3, 4)], "E": [5.1, 6.0, 2.0, 1.5]}

    def write(pileup):
        branches = {
            "EFlowTrack": [tracks] * 2,
            # Half, all, and nothing of the energy is found; the last counts as pileup.
            "EFlowPhoton": [{**photons, "Particles": pack([[2, 3], [2], [77]])}] * 2,
            # References explain 1.5 GeV of 8; the rest comes from particles that the file does not store.
            "EFlowNeutralHadron": [{**hadrons, "Particles": pack([[4, 78]])}] * 2,
            "Particle": [{**generated, **pileup}] * 2,
        }
        return write_delphes(branches)

    return write


@pytest.mark.parametrize(
    ("pileup", "shares"),
    [
        ({"IsPU": [0, 0, 1, 0]}, [0.75, 1.0, 0.0, 0.1875]),
        ({}, [1.0, 1.0, 0.0, 0.1875]),
    ],
)
def test_neutrals_are_labelled_by_the_energy_of_their_particles(energy_flow, tmp_path, pileup, shares):
    path = energy_flow(pileup)
    built = hepdata.build_pileup(path, tmp_path / "d", split="100/0/0")
    for cloud in built["train"]:
        order = np.argsort(cloud.index_in_source)
        np.testing.assert_allclose(cloud.hard_fraction[order], [1, 0, *shares])
        assert cloud.is_leading[order].tolist() == [True, False, *(share >= 0.5 for share in shares)]
        assert cloud.vertex[order].tolist() == [1, -1, 0, 0, 0, 0]
    fits = {fit.preset: fit for fit in hepdata.inspect(path).fits}
    assert fits["eflow"].labels == {
        "EFlowTrack": "TRef",
        "EFlowPhoton": "TRefArray",
        "EFlowNeutralHadron": "TRefArray",
    }


def test_a_map_of_references_needs_energies(write_delphes, tmp_path):
    leaves = {"PT": [1.0], "Eta": [0.0], "Phi": [0.0], "Charge": [0], "Particles": pack([[1]])}
    path = write_delphes({"Neutral": [leaves], "Particle": [{"fUniqueID": [1]}]})
    names = "{pt: PT, eta: Eta, phi: Phi, charge: Charge}"
    text = f"collections: [{{branch: Neutral, leaves: {names}, label: TRefArray}}]"
    (tmp_path / "map.yaml").write_text(text)
    with pytest.raises(InputError, match=r"no leaf Particle.E; expected generator particles for TRefArray"):
        hepdata.build_pileup(path, tmp_path / "d", branches=str(tmp_path / "map.yaml"))


def test_a_range_of_events_through_files(tmp_path):
    for name, seed in (("a", 0), ("b", 1)):
        hepdata.simulate_pileup(tmp_path / f"{name}.root", events=4, pileup=2, seed=seed)
    files = [tmp_path / "a.root", tmp_path / "b.root"]
    whole = hepdata.build_pileup(files, tmp_path / "whole", split="100/0/0")
    some = hepdata.build_pileup(files, tmp_path / "some", split="100/0/0", events="5-6")
    assert [cloud.event_id for cloud in some["train"]] == [5, 6]
    for cloud, other in zip(some["train"], whole["train"][5:7], strict=True):
        np.testing.assert_array_equal(cloud.pt, other.pt)
    # Only the file that is read is hashed.
    assert [source.name for source in some.manifest.sources] == ["b.root"]
    for events, count in (("3-", 5), ("0-0", 1), (range(2, 4), 2)):
        built = hepdata.build_pileup(files, tmp_path / str(count), split="100/0/0", events=events)
        assert len(built["train"]) == count
    for events, words in (("8-9", "8 to 9"), ("8-", "8 on")):
        with pytest.raises(InputError, match=f"id from {words}; expected one of the 8 events from 0 to 7"):
            hepdata.build_pileup(files, tmp_path / "d", events=events)
