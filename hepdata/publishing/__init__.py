"""Datasets for other people: data card, Croissant metadata, checksums, citation, and the upload to a hub."""
