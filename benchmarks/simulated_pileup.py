"""Simulated pileup events beside those of other files: particles, momenta and jets of an event.

    python -m benchmarks.simulated_pileup delphes.root simulated.root

Files need the branch `PF`; the table in `docs/pileup.md` is from this.
"""

from __future__ import annotations

import argparse

import awkward as ak
import numpy as np
import uproot
from numpy.typing import NDArray

from hepdata.angles import delta_phi
from hept.metrics.jets import find_jets

_LEAVES = ("PT", "Eta", "Phi", "PID", "Charge", "IsPU", "E", "Px", "Py")
_SPECIES = {
    "photons": (22,),
    "π±": (211,),
    "K±": (321,),
    "p": (2212,),
    "n": (2112,),
    "K0S": (310,),
    "K0L": (130,),
    "Λ": (3122,),
    "e": (11,),
}

Columns = dict[str, NDArray[np.float64]]


def describe(path: str) -> dict[str, float]:
    """Means over the events of a file, and medians over their jets."""
    arrays = uproot.open(path)["Delphes"].arrays([f"PF.{name}" for name in _LEAVES])
    n = len(arrays)
    c = {name: ak.to_numpy(ak.flatten(arrays[f"PF.{name}"])) for name in _LEAVES}
    leading, charged, central = c["IsPU"] == 0, c["Charge"] != 0, np.abs(c["Eta"]) < 2.5
    photon = c["PID"] == 22
    rows = {
        "particles of the leading collision": leading.sum() / n,
        "charged ones": (leading & charged).sum() / n,
        "neutral ones above 0.9 GeV": (leading & ~charged & (c["PT"] > 0.9)).sum() / n,
    }
    for name, chosen in (("charged", charged), ("photons", photon), ("neutral hadrons", ~charged & ~photon)):
        rows[rf"Σ pT within \|η\| < 2.5 in GeV, {name}"] = c["PT"][leading & central & chosen].sum() / n
    rows |= {
        "particles of pileup": (~leading).sum() / n,
        r"charged ones within \|η\| < 2.5": (~leading & charged & central).sum() / n,
        "neutral pileup above 0.9 GeV": (~leading & ~charged & (c["PT"] > 0.9)).sum() / n,
    }
    for name, codes in _SPECIES.items():
        rows[f"{name}, % of the leading collision"] = 100 * np.isin(np.abs(c["PID"][leading]), codes).mean()
    jets = [row for event in arrays for row in _list_jets({x: event[f"PF.{x}"].to_numpy() for x in _LEAVES})]
    table = np.array(jets)
    rows["jets above 20 GeV of the leading collision"] = len(table) / n
    for column, name in enumerate(("pT in GeV", "mass / pT", "constituents")):
        rows[f"their {name}, median"] = float(np.median(table[:, column]))
    rows["neutral part of their pT, mean"] = float(table[:, 3].mean())
    rows["part of their pT within 0.1, mean"] = float(table[:, 4].mean())
    return rows


def _list_jets(c: Columns) -> list[tuple[float, ...]]:
    chosen = (c["IsPU"] == 0) & (np.abs(c["Eta"]) < 5)
    c = {name: values[chosen] for name, values in c.items()}
    jets = find_jets(c["Px"], c["Py"], c["Eta"], c["E"], np.ones(len(c["PT"])))
    rows = []
    for i in range(len(jets)):
        delta_r = np.hypot(c["Eta"] - jets.eta[i], delta_phi(c["Phi"], jets.phi[i : i + 1]))
        inside = c["PT"] * (delta_r < 0.4)
        neutral, core = inside[c["Charge"] == 0].sum(), inside[delta_r < 0.1].sum()
        whole = inside.sum()
        rows.append(
            (jets.pt[i], jets.mass[i] / jets.pt[i], jets.n_constituents[i], neutral / whole, core / whole)
        )
    return rows


def main() -> None:
    """Print a row of Markdown for each figure, with a column for each file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+")
    found = [describe(file) for file in parser.parse_args().files]
    for name in found[0]:
        print(f"| {name} | " + " | ".join(f"{one[name]:.3g}" for one in found) + " |")


if __name__ == "__main__":
    main()
