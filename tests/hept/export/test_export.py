import json
from importlib.metadata import version

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from hepdata.cloud import stack_inputs
from hept import export_model, load_model
from hept.export.certificate import RAGGED_CLOUDS, SINGLE_CLOUDS
from hept.export.sample import draw_sample
from hept.export.torch_file import read_metadata


def run_onnx(exported, sample, inputs="raw"):
    session = onnxruntime.InferenceSession(str(exported.out), providers=["CPUExecutionProvider"])
    return session.run(None, {**sample.select(inputs), "offsets": sample.offsets})[0]


def run_torch(trained, sample):
    with torch.no_grad():
        tensors = (torch.from_numpy(each) for each in (sample.features, sample.coords, sample.offsets))
        return trained.network(*tensors).numpy()


def test_inputs_are_columns_by_name_and_axes_are_free(exported):
    done, trained = exported
    graph = onnx.load(done.out).graph
    names = [value.name for value in graph.input]
    assert names == [*dict.fromkeys(entry.column for entry in trained.features), "offsets"]
    assert {value.type.tensor_type.shape.dim[0].dim_param for value in graph.input} == {"points", "borders"}
    assert [value.name for value in graph.output] == ["embedding"]


def test_only_standard_operators_of_one_opset_without_loops(exported):
    model = onnx.load(exported[0].out)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 18)]
    assert model.ir_version == 8
    assert {node.domain for node in model.graph.node} == {""}
    assert not {"Loop", "Scan", "If"} & {node.op_type for node in model.graph.node}
    assert len(model.functions) == 0


def test_products_in_double_precision_take_no_transposed_matrix(exported):
    # onnxruntime up to 1.25 moves a transposition next to a product and replaces both by one operator, which
    # it has in single precision only. It cannot move one through a change of shape.
    graph = onnx.shape_inference.infer_shapes(onnx.load(exported[0].out)).graph
    types = {value.name: value.type.tensor_type.elem_type for value in graph.value_info}
    made_by = {name: node for node in graph.node for name in node.output}
    blocked = {"Reshape", "MatMul", "Gemm", "LayerNormalization", "GatherND", "Gather"}
    constant = {value.name for value in graph.initializer}

    def is_constant(name):
        return name in constant or (name in made_by and all(map(is_constant, made_by[name].input)))

    def find_transpose(name):
        node = made_by.get(name)
        if node is None or node.op_type in blocked or is_constant(name):
            return None
        return (
            node if node.op_type == "Transpose" else next(filter(None, map(find_transpose, node.input)), None)
        )

    products = [node for node in graph.node if types.get(node.output[0]) == onnx.TensorProto.DOUBLE]
    products = [node for node in products if node.op_type == "MatMul"]
    assert len(products) > 3
    assert not [name for node in products for name in node.input if find_transpose(name)]


def test_metadata_tells_inputs_units_and_certificate(exported):
    session = onnxruntime.InferenceSession(str(exported[0].out), providers=["CPUExecutionProvider"])
    texts = session.get_modelmeta().custom_metadata_map
    units = {entry["name"]: entry["unit"] for entry in json.loads(texts["inputs"])}
    assert (units["r"], units["phi"], units["u"]) == ("mm", "rad", "1/mm")
    assert (texts["task"], texts["objective"]) == ("tracking", "pairs")
    assert json.loads(texts["clustering"])["eps"] == 0.15
    assert json.loads(texts["versions"])["torch"] == version("torch")
    certificate = json.loads(texts["certificate"])
    sizes = [tuple(check["sizes"]) for check in certificate["checks"]]
    assert sizes == [*((n,) for n in SINGLE_CLOUDS[:-1]), *RAGGED_CLOUDS]
    assert certificate["left_out"] == [60_000]
    assert max(check["p99"] for check in certificate["checks"]) <= 1e-3


def test_nothing_of_this_machine_is_in_the_file(exported, request):
    content = exported[0].out.read_bytes()
    assert str(request.config.rootpath).encode() not in content
    assert b"site-packages" not in content


def test_ties_are_broken_as_in_torch(exported):
    done, trained = exported
    sample = draw_sample(trained.features, trained.coords, (150, 90), seed=4)
    for name in ("eta", "phi", "r", "z"):
        # The keys of hash tables are then equal for whole groups of points that differ in other columns.
        sample.columns[name][:] = np.round(sample.columns[name])
    for matrix, part in ((sample.features, trained.features), (sample.coords, trained.coords)):
        matrix[:] = stack_inputs(sample.columns, part, 240)
    np.testing.assert_allclose(run_onnx(done, sample), run_torch(trained, sample), atol=1e-4)


def test_a_cloud_does_not_see_the_others_of_its_batch(exported):
    done, trained = exported
    both = draw_sample(trained.features, trained.coords, (77, 50), seed=5)
    together = run_onnx(done, both)
    columns = {name: values[:77] for name, values in both.columns.items()}
    session = onnxruntime.InferenceSession(str(done.out), providers=["CPUExecutionProvider"])
    (alone,) = session.run(None, {**columns, "offsets": np.array([0, 77])})
    np.testing.assert_allclose(together[:77], alone, atol=1e-5)


def test_a_torch_file_gives_scores_and_the_same_certificate(run_of, tmp_path):
    done = export_model(run_of("pileup"), tmp_path / "model.pt2", quick=True, threads=1)
    assert done.output == "score"
    texts = read_metadata(done.out)
    assert json.loads(texts["certificate"])["runtime"] == "torch"
    trained = load_model(run_of("pileup"))
    sample = draw_sample(trained.features, trained.coords, (60,), seed=2)
    module = torch.export.load(done.out).module()
    points = {name: torch.from_numpy(column) for name, column in sample.columns.items()}
    score = module(points, torch.from_numpy(sample.offsets))
    assert score.shape == (60,)
    expected = torch.from_numpy(run_torch(trained, sample)).sigmoid()[:, 0]
    torch.testing.assert_close(score, expected, atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "name", "options"),
    [
        ("pileup", "model.onnx", {}),
        ("pileup", "model.onnx", {"inputs": "prepared"}),
        ("tracking", "model.pt2", {"aot": True}),
    ],
)
def test_other_forms(run_of, tmp_path, task, name, options):
    done = export_model(run_of(task), tmp_path / name, threads=1, **options)
    assert done.certificate.left_out == ()
    assert done.certificate.worst.p99 <= 1e-3
