"""Datasets on disk: how clouds are written, read, checked, converted and merged.

A dataset is a folder:

    dataset.json                     the manifest (`dataset/manifest.py`): all facts and checksums
    train-00000-of-00004.parquet …   one row, and one row group, per cloud (`parquet/`)
    train.h5, valid.h5, test.h5      or HDF5: one flat array per column, and offsets (`hdf5/`)

**Columns.** Scalars `event_id` (int64), `sector`, `n_points` (int32); one list per variable of the schema;
pair lists as compressed sparse rows `pos_ptr`, `pos_idx`, `neg_ptr`, `neg_idx` (int32). Units and meanings
are in the field metadata (Parquet) and in the attributes (HDF5).

**Checks.** The manifest begins with the SHA-256 of its own text and holds the SHA-256 of every file. Readers
check what they read: in Parquet the footer against a CRC-32 in the manifest and every page against Parquet's
own CRC-32 in its header, in HDF5 a sum of words per array.

**Versions.** `format_version` is an integer. A reader opens every version up to its own and refuses newer
ones. Readers ignore unknown fields of the manifest, so that optional fields can be added without a new
version; any change that an older reader would misread needs one. `tests/data` keeps datasets of each version.
    1   Parquet pages of floats and of negative pairs in LZ4, all others in zstd; their CRC-32 in the index
    2   all in LZ4, and their XXH3 in the index; HDF5 as before
    3   written by pyarrow: points uncompressed, pairs in zstd, no index of pages; HDF5 as before
"""
