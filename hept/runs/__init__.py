"""A training run as a folder: what it is planned to do, its data, its files, and who may write them."""
