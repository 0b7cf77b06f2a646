"""Realistic events of the TrackML detector: collisions by Pythia, transport by ACTS Fatras, clusters."""
