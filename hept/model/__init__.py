"""From settings and inputs to a network, and trained networks on disk."""
