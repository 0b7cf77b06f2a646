"""Simulated raw events, in the file formats of real ones."""
