"""From a traced program to an ONNX file of standard operators."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from hept.export.graph import ModelGraph

# What the exporter writes by itself, and onnxruntime reads from 1.14 on.
OPSET = 18


def write_onnx(path: Path, graph: ModelGraph, program: ExportedProgram, metadata: Mapping[str, str]) -> None:
    """Write a traced model; inputs have the names of the graph, the axes `points` and `borders` are free."""
    import onnx

    model = _translate(program)
    _rename(model, [*graph.input_names, "offsets"], [graph.output_name])
    for node in model.graph.node:
        # Stack traces of the export: twice as large as the rest, with paths of this machine.
        del node.metadata_props[:]
        node.doc_string = ""
    # Shapes of inner values only repeat what a runtime infers, with axes named by the tracer.
    del model.graph.value_info[:]
    for value in (*model.graph.input, *model.graph.output):
        del value.metadata_props[:]
        value.type.tensor_type.shape.dim[0].dim_param = "borders" if value.name == "offsets" else "points"
    del model.graph.metadata_props[:]
    del model.metadata_props[:]
    # torch writes a newer file format than this opset needs, which older runtimes refuse.
    model.ir_version = onnx.helper.find_min_ir_version_for(model.opset_import)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    add_metadata(path, metadata)


def add_metadata(path: Path, metadata: Mapping[str, str]) -> None:
    """Add texts by name to an ONNX file; a name that is there already is replaced."""
    import onnx

    model = onnx.load(path)
    texts = {entry.key: entry.value for entry in model.metadata_props} | dict(metadata)
    onnx.helper.set_model_props(model, texts)
    path.write_bytes(model.SerializeToString())


def _translate(program: ExportedProgram) -> Any:
    """The program as an ONNX model."""
    # It warns of each node that the optimiser leaves unchanged.
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _sort_by_topk(program)
            translated = torch.onnx.export(program, dynamo=True, opset_version=OPSET, verbose=False)
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    if translated is None:
        raise RuntimeError("torch.onnx.export returned no model")
    return translated.model_proto


def _sort_by_topk(program: ExportedProgram) -> None:
    """Turn stable sorts, in place, into TopK of all elements: of equal ones it puts the lower index first."""
    aten = torch.ops.aten
    # What runs without autocast is a graph of its own.
    graphs = [part.graph for part in program.graph_module.modules() if isinstance(part, GraphModule)]
    for graph in graphs:
        for node in graph.find_nodes(op="call_function", target=aten.sort.stable):
            rows, dim = node.args[0], node.kwargs.get("dim", -1)
            with graph.inserting_before(node):
                length = graph.call_function(aten.sym_size.int, (rows, dim))
                length.meta["val"] = rows.meta["val"].shape[dim]
            node.target, node.args, node.kwargs = aten.topk.default, (rows, length, dim, False, True), {}


def _rename(model: Any, inputs: list[str], outputs: list[str]) -> None:
    """Give inputs and outputs of a model their names, wherever they occur."""
    new = dict(zip((value.name for value in model.graph.input), inputs, strict=True))
    new |= dict(zip((value.name for value in model.graph.output), outputs, strict=True))
    taken = set(new.values())
    names = {name for node in model.graph.node for name in (*node.input, *node.output)}
    # Rename inner values that have the name of an input.
    new = {name: f"{name}_inner" for name in (names & taken) - set(new)} | new
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        value.name = new.get(value.name, value.name)
    for node in model.graph.node:
        for names_of_node in (node.input, node.output):
            for i, name in enumerate(names_of_node):
                names_of_node[i] = new.get(name, name)
