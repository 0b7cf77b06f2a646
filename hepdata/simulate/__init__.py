"""Raw events without a download, in the file formats of the real ones."""
