"""Console commands `hept-data` and `hept-train`."""
