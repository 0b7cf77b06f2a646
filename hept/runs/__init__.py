"""A training run: its plan, its data, its folder, and the lock of its writer."""
