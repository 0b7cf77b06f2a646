import numpy as np
import pytest

from hepdata.errors import InputError
from hepdata.features.labels import count_hits, label_particles


def test_momenta_are_found_by_particle_id_beyond_2_to_the_53():
    close = 2**60
    particles = {
        "particle_id": np.array([close, close + 1]),
        "px": np.array([3.0, 0.0]),
        "py": np.array([4.0, 2.0]),
        "pz": np.array([0.0, 2.0]),
    }
    found = label_particles(np.array([close + 1, 0, close, close + 1]), particles, "event 1")
    labels = {name: values[found.particle_j] for name, values in found.columns.items()}
    assert labels["particle_id"].tolist() == [close + 1, 0, close, close + 1]
    assert labels["pt"].tolist() == [2.0, 0.0, 5.0, 2.0]
    assert labels["particle_eta"] == pytest.approx([np.arcsinh(1.0), 0.0, 0.0, np.arcsinh(1.0)])


def test_a_particle_along_the_beam():
    particles = {"particle_id": np.array([5]), "px": np.zeros(1), "py": np.zeros(1), "pz": np.ones(1)}
    with pytest.raises(InputError, match="event 1: found particle 5 without transverse momentum"):
        label_particles(np.array([5]), particles, "event 1")
    assert label_particles(np.array([0]), particles, "event 1").columns["pt"].tolist() == [0.0]


def test_counts_by_hand():
    particle_id = np.array([7, 0, 7, 7, 9, 9, 0, 8])
    layer = np.array([0, 0, 1, 2, 4, 4, 17, 3])
    counts = count_hits(particle_id, layer)
    assert counts["n_hits"].tolist() == [3, 0, 3, 3, 2, 2, 0, 1]
    assert counts["n_layers_hit"].tolist() == [3, 0, 3, 3, 1, 1, 0, 1]
    assert counts["is_reconstructable"].tolist() == [True, False, True, True, False, False, False, False]
