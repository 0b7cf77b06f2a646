"""Pictures of events and datasets."""
