"""Settings of a training run: their fields, presets, and how users change and read them."""
