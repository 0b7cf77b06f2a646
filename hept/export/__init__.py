"""A trained model for programs without this package: ONNX and `torch.export` files, folders for a hub."""
