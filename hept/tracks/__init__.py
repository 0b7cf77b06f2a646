"""From embeddings to tracks: the tree, helices, and the steps after them."""
