"""Settings of a training run: fields, presets, changes, and tables for users."""
