"""What each figure of merit means, in a sentence."""

from __future__ import annotations

DEFINITIONS: dict[str, str] = {
    "loss": "The training loss on this split, without random negatives (pairs: InfoNCE; classes: focal).",
    "ap": "AP@k: of a hit's k nearest hits in embedding space, the part from its particle, where k is the "
    "number of other hits of that particle; mean over reconstructable hits above the pT in GeV after the @.",
    "precision19": "Of a hit's 19 nearest hits, the part from its particle.",
    "recall19": "Of the other hits of a hit's particle, the part among its 19 nearest.",
    "auc": "Area under the precision–recall curve (average precision) of neutral particles above 0.9 GeV.",
    "roc_auc": "Area under the ROC curve of the same particles.",
    "f1": "Harmonic mean of precision and recall at a probability of one half.",
    "auc_puppi": "The same area for the PUPPI-like weight, which knows the vertices of charged particles.",
    "roc_auc_puppi": "ROC area of the PUPPI-like weight.",
    "met_resolution": "Half the central 68 % of the error of a component of the missing pT, in GeV; neutrals "
    "weighted by nothing, by PUPPI, by the model.",
    "jet_resolution": "Half the central 68 % of found/true pT of jets above 20 GeV (anti-kT, R = 0.4).",
    "jet_response": "Median of found/true pT of the same jets.",
    "efficiency_lhc": "Particles above 0.9 GeV with a track of which at least 75 % are theirs.",
    "efficiency_double_majority": "Particles above 0.9 GeV with a track that holds more than half of their "
    "hits and consists of them by more than half.",
    "efficiency_perfect": "Particles above 0.9 GeV with a track of exactly their hits.",
    "fake_rate": "Tracks that match no particle under this definition.",
    "duplicate_rate": "Tracks whose particle an earlier track matches already.",
    "trackml_score": "Part of the particles' hits that lie in tracks of double majority with their particle.",
    "n_clouds": "Clouds evaluated.",
}


# What people call figures whose key says something else to many; the keys in JSON files stay.
_NAMES = {"auc": "average precision (AUC in the paper)", "roc_auc": "ROC AUC"}


def name_metric(metric: str) -> str:
    """What a metric is called in tables, by its key in the evaluation.

    >>> name_metric("auc_per_cloud")
    'average precision (AUC in the paper), per cloud'
    """
    per_cloud = metric.endswith("_per_cloud")
    key = metric.removesuffix("_per_cloud")
    by = ", PUPPI-like" if key.endswith("_puppi") else ""
    name = _NAMES.get(key.removesuffix("_puppi"))
    if name is None:
        return metric
    return name + by + (", per cloud" if per_cloud else "")


def explain(metric: str) -> str:
    """The definition of a metric by its key in the evaluation, "" where there is none."""
    per_cloud = " Mean over clouds." if metric.endswith("_per_cloud") else ""
    name = metric.removesuffix("_per_cloud").partition("@")[0]
    while name and name not in DEFINITIONS:
        name = name.rpartition("_")[0]
    return DEFINITIONS.get(name, "") + per_cloud
