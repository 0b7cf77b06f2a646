"""Raw files to events: `trackml*`, `colliderml*`, `delphes*`, `table*` and `pyg_files` (torch_geometric)."""
