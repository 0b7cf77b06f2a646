"""What training minimises: InfoNCE over stored pair lists (tracking) and focal loss (pileup)."""

from hept.losses.focal import focal_loss
from hept.losses.infonce import RandomNegatives, info_nce
from hept.losses.particles import count_particles, number_particles

__all__ = ["RandomNegatives", "count_particles", "focal_loss", "info_nce", "number_particles"]
