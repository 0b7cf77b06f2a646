"""Every system that the paper compares: efficient transformers and graph networks in one frame."""
