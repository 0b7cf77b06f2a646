"""What training minimises: InfoNCE over stored pair lists (tracking) and focal loss (pileup)."""

from hept.losses.focal import focal_loss
from hept.losses.infonce import RandomNegatives, count_particles, info_nce, number_particles

__all__ = ["RandomNegatives", "count_particles", "focal_loss", "info_nce", "number_particles"]
