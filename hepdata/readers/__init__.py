"""Raw files to events: `trackml*` for TrackML, `delphes*` for Delphes, `pyg_files` for torch_geometric."""
