"""Datasets on disk: manifest, Parquet, HDF5, integrity."""
