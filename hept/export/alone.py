"""Runs an exported model as another program would: a script without this package, for ONNX without torch too.

    python -I alone.py MODEL INPUTS.npz OUTPUTS.npz THREADS

INPUTS holds "CASE/NAME" for every input of every case; OUTPUTS gets "CASE".
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Run = Callable[[dict[str, Any]], Any]


def run_onnx(path: str, threads: int) -> Run:
    """A function of named arrays, computed by onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # The arena keeps what the largest cloud needed, rounded up to powers of two.
    options.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)[0]


def run_torch(path: str, threads: int) -> Run:
    """The same by torch: a compiled package where the file is one, else the exported program."""
    import torch

    torch.set_num_threads(threads)
    with zipfile.ZipFile(path) as archive:
        is_compiled = any("/data/aotinductor/" in name for name in archive.namelist())
    model: Any
    if is_compiled:
        from torch._inductor import aoti_load_package

        model = aoti_load_package(path)
    else:
        model = torch.export.load(path).module()

    def run(inputs: dict[str, Any]) -> Any:
        tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
        offsets = tensors.pop("offsets")
        with torch.no_grad():
            return model(tensors, offsets).numpy()

    return run


def main(path: str, inputs: str, outputs: str, threads: str) -> None:
    """Run all cases; prints the version of the runtime as JSON."""
    is_onnx = path.endswith(".onnx")
    run = (run_onnx if is_onnx else run_torch)(path, int(threads))
    cases: dict[str, dict[str, Any]] = {}
    with np.load(inputs) as file:
        for key in file.files:
            case, name = key.split("/")
            cases.setdefault(case, {})[name] = file[key]
    results = {case: run(arrays) for case, arrays in cases.items()}
    strangers = {"hept", "hepdata"} | ({"torch"} if is_onnx else set())
    if strangers & set(sys.modules):
        sys.exit(f"the model was not alone: {', '.join(sorted(strangers & set(sys.modules)))} was imported")
    np.savez(outputs, **results)
    runtime = sys.modules["onnxruntime" if is_onnx else "torch"]
    sys.stdout.write(json.dumps({"runtime": runtime.__name__, "version": runtime.__version__}))


if __name__ == "__main__":
    main(*sys.argv[1:])
