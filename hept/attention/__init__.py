"""HEPT attention: features and coordinates enter, hash tables sort the points into blocks, features leave.

definition    the method, in one file
ranks         stable sorts by hash and coordinates
clouds        which points belong together
kernels       attention in blocks, one file per kind of hardware

Other attentions are in `hept.paper.systems`; one of your own needs no change here (docs/own-attention.md).
"""

# Product of the AND bucket numbers, G, as published for Tracking-60k; 140 for pileup (presets).
N_REGIONS = 150
