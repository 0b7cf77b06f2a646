"""Every system that the paper compares: efficient transformers and graph networks of the same sizes.

`catalog` names them and needs no torch; `registry.build_model` builds them.
"""
