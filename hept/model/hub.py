"""Models on a hub: `hf://user/name` enters, the path of its weights on this machine leaves.

Only the weights file is fetched: numbers and a description, of which nothing is executed.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from hepdata.errors import InputError, missing_extra

# The weights of a packaged model; the name that hubs know.
PACKAGED = "model.safetensors"
# A `Path` turns `hf://` into `hf:/`.
_ADDRESS = re.compile(r"hf:/{1,2}([\w.-]+/[\w.-]+)(?:@([\w./-]+))?/?")


def is_hub_address(source: str | os.PathLike[str]) -> bool:
    """Whether a model is given by its address on a hub."""
    return os.fspath(source).startswith("hf:/")


def fetch_weights(source: str | os.PathLike[str]) -> Path:
    """The weights of `hf://user/name`, or of a revision `hf://user/name@revision`, from the cache or the hub.

    Raises:
        InputError: Not an address, no such model, no network, or no `huggingface_hub`.
    """
    found = _ADDRESS.fullmatch(os.fspath(source))
    if found is None:
        raise InputError(
            source,
            found="an address of another form",
            expected="hf://user/name or hf://user/name@revision",
            remedy="check its spelling",
        )
    if find_spec("huggingface_hub") is None:
        raise missing_extra("huggingface_hub", "hub")
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(found[1], PACKAGED, revision=found[2]))
    except (OSError, ValueError) as error:
        raise InputError(
            f"hf://{found[1]}",
            found=f"no {PACKAGED} ({' '.join(str(error).split())[:200]})",
            expected="a model that hept-train package made, and a network or a copy in the cache",
            remedy="check user, name and connection",
        ) from error
