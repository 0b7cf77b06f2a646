"""Whole datasets, independent of the format of their files.

Modules:
    names                                   names of files and splits
    manifest, manifest_checks, old_schema   `dataset.json`: written, read, checked, completed
    statistics, software                    what the manifest counts, and which packages wrote the files
    own_files, lock, replace, finish        from a folder of shards to a dataset, atomically
    upload                                  the same at an fsspec URL
    validate, cloud_checks                  every byte and every cloud checked
    convert, merge                          new datasets from existing ones
"""
