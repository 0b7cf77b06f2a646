"""One comparison of all systems on one dataset, with the paper's tables and its published numbers."""
