"""Every system that the paper compares: efficient transformers and graph networks in one frame.

`catalog` names them and needs no torch; `registry.build_model` builds them.
"""
