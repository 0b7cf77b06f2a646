"""HDF5 files, one flat array per column: `writer`, `reader`, `checksum`, `new_file`."""
