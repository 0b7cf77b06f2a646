"""What each figure of merit means, in a sentence."""

from __future__ import annotations

DEFINITIONS: dict[str, str] = {
    "loss": "The training loss on this split, without random negatives (pairs: InfoNCE; classes: focal).",
    "ap": "AP@k: of a hit's k nearest hits in embedding space, the part from its particle, where k is the "
    "number of other hits of that particle; mean over reconstructable hits above the pT in GeV after the @.",
    "precision19": "Of a hit's 19 nearest hits, the part from its particle.",
    "recall19": "Of the other hits of a hit's particle, the part among its 19 nearest.",
    "auc": "Area under the precision–recall curve (average precision) of the scored points: for pileup "
    "the neutral particles in the scope of the dataset.",
    "roc_auc": "Area under the ROC curve of the same points.",
    "f1": "Harmonic mean of precision and recall at a probability of one half.",
    "calibration_error": "Mean difference of probability and observed rate, over 15 bins of probability.",
    "met_resolution": "Half the central 68 % of the error of a component of the missing pT, in GeV.",
    "met_resolution_error": "Statistical error of the resolution.",
    "met_parallel": "The same of the component along the true missing pT.",
    "met_perpendicular": "The same of the component across it.",
    "met_scale": "Median of the found missing pT along the true one, divided by the true one.",
    "met_tail": "Part of events whose missing pT is wrong by more than 30 GeV.",
    "jet_response": "Median of found/true pT of jets above 20 GeV (anti-kT, R = 0.4).",
    "jet_resolution": "Half the central 68 % of found/true pT of the same jets, divided by the response.",
    "jet_resolution_error": "Statistical error of the resolution.",
    "jet_efficiency": "True jets above 20 GeV with a found jet above 10 GeV within 0.3.",
    "jet_fake_rate": "Found jets above 20 GeV without a true jet above 10 GeV within 0.3.",
    "jet_mass_bias": "Median of found − true jet mass, in GeV.",
    "jet_mass_resolution": "Half the central 68 % of found − true jet mass, in GeV.",
    "jet_constituents": "Median of found/true number of constituents.",
    "n_jets": "True jets above 20 GeV.",
    "n_jet8s": "True jets above 50 GeV with R = 0.8.",
    "efficiency_lhc": "Particles above 0.9 GeV with a track of which at least 75 % are theirs.",
    "efficiency_double_majority": "Particles above 0.9 GeV with a track that holds more than half of their "
    "hits and consists of them by more than half.",
    "efficiency_perfect": "Particles above 0.9 GeV with a track of exactly their hits.",
    "fake_rate": "Of all tracks of at least three hits, those that match no particle by double majority.",
    "fake_rate_target": "The same among tracks whose majority particle is a target (above 0.9 GeV).",
    "fake_rate_impure": "Of all tracks, those of which less than 75 % of the hits are of one particle.",
    "duplicate_rate": "Of all tracks, those mostly from a particle of which another track has more hits.",
    "hit_purity": "Of the hits of tracks that match, the part from their particle.",
    "hit_efficiency": "Of the hits of found targets, the part in their track; mean over targets.",
    "trackml_score": "Weight of hits in tracks of double majority with their particle, of all weight; the "
    "challenge's weights where the dataset has them; mean over clouds.",
    "n_targets": "Reconstructable particles above 0.9 GeV.",
    "n_tracks": "Tracks of at least three hits.",
    "n_clouds": "Clouds evaluated.",
}


# Displayed names of metrics whose keys mislead; the keys in JSON files stay.
_NAMES = {"auc": "average precision (AUC in the paper)", "roc_auc": "ROC AUC"}


def name_metric(metric: str) -> str:
    """What a metric is called in tables, by its key in the evaluation.

    >>> name_metric("auc_per_cloud")
    'average precision (AUC in the paper), per cloud'
    """
    per_cloud = metric.endswith("_per_cloud")
    key = metric.removesuffix("_per_cloud")
    name = _NAMES.get(key)
    return metric if name is None else name + (", per cloud" if per_cloud else "")


def explain(metric: str) -> str:
    """The definition of a metric by its key in the evaluation, "" where there is none."""
    per_cloud = " Mean over clouds." if metric.endswith("_per_cloud") else ""
    name = metric.removesuffix("_per_cloud").partition("@")[0]
    if name.startswith("jet8_"):
        small = explain(name.replace("jet8_", "jet_", 1))
        return (
            small.replace("20 GeV", "50 GeV")
            .replace("10 GeV", "25 GeV")
            .replace("0.3", "0.6")
            .replace("R = 0.4", "R = 0.8")
        )
    while name and name not in DEFINITIONS:
        name = name.rpartition("_")[0]
    return DEFINITIONS.get(name, "") + per_cloud
