"""Showers in a toy calorimeter, as a table: one row per cell, one column that numbers the events.

    python simulate.py cells.parquet --events 60

Every event has a few photons (narrow) and jets (broad, of several particles) over noise. A cell is 0.1 × 0.1
in (η, φ) with |η| < 3, in two samplings, stored if above the threshold. Energies in one cell
add up, and the cell belongs to the shower that gives it most; 0 is noise.
"""

import argparse

import numpy as np
import pandas as pd

CELL = 0.1  # in η and in φ
N_ETA, N_PHI = 60, 63
THRESHOLD = 0.15  # GeV
NOISE = 0.06  # GeV, width of the electronic noise of a cell


def simulate_event(rng: np.random.Generator) -> pd.DataFrame:
    """The cells of one event: place, sampling, energy, shower and whether it is electromagnetic."""
    energy = np.zeros((8, 2, N_ETA, N_PHI))  # shower, sampling, η, φ; shower 0 is noise
    energy[0] = np.abs(rng.normal(0, NOISE, energy[0].shape))
    is_photon = np.concatenate([[False], rng.random(7) < 0.5])
    for shower in range(1, 8):
        axis = rng.uniform([-2.5, 0], [2.5, 2 * np.pi])
        n_particles, opening = (1, 0.0) if is_photon[shower] else (8, 0.2)
        for _ in range(n_particles):
            place = axis + rng.normal(0, opening, 2)
            deposits = rng.normal(place, 0.03 if is_photon[shower] else 0.06, (300, 2))
            i = np.floor(deposits[:, 0] / CELL).astype(int) + N_ETA // 2
            j = np.floor(deposits[:, 1] / (2 * np.pi) * N_PHI).astype(int) % N_PHI
            is_inside = (i >= 0) & (i < N_ETA)
            share = rng.exponential(30 / n_particles) / 300
            # Photons stop in the first sampling, hadrons reach the second.
            sampling = (rng.random(300) < (0.1 if is_photon[shower] else 0.6)).astype(int)
            np.add.at(energy[shower], (sampling[is_inside], i[is_inside], j[is_inside]), share)
    total, shower = energy.sum(0), energy.argmax(0)
    sampling, i, j = np.nonzero(total > THRESHOLD)
    return pd.DataFrame(
        {
            "cell": (sampling * N_ETA + i) * N_PHI + j,
            "eta": (i - N_ETA // 2 + 0.5) * CELL,
            "phi": 360 * (j + 0.5) / N_PHI,
            "sampling": sampling,
            "energy": total[sampling, i, j],
            "shower": shower[sampling, i, j],
            "is_photon": is_photon[shower[sampling, i, j]],
        }
    )


def main() -> None:
    """Write some events as one Parquet table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="the Parquet file")
    parser.add_argument("--events", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    events = [
        simulate_event(np.random.default_rng([arguments.seed, n])).assign(event=n)
        for n in range(arguments.events)
    ]
    pd.concat(events, ignore_index=True).to_parquet(arguments.out, index=False)


if __name__ == "__main__":
    main()
