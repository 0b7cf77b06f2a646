"""The examples without this package: from a CSV file of hits to tracks, in Python and in C++."""

import csv
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from hept.export.onnx_file import add_metadata
from hept.export.sample import draw_sample
from hept.tracks.finder import Clustering, number_modules
from hept.tracks.tree import TreeChoice, grow_tracks

ROOT = Path(__file__).parents[3]
# All pairs of the examples are neighbours; small tracks, so that random hits make some.
TREE = TreeChoice(cut=0.2, shared=0.6, overlap=0.1, neighbours=150, max_hits=9, min_layers=2)
CHOICES = {"tree": Clustering("tree", tree=TREE), "dbscan": Clustering("dbscan", eps=0.15, min_points=2)}


@pytest.fixture(scope="module", params=CHOICES)
def model(request, exported, tmp_path_factory):
    """An exported model with another tuned clustering, and the clustering."""
    path = tmp_path_factory.mktemp("tuned") / "model.onnx"
    shutil.copyfile(exported[0].out, path)
    chosen = CHOICES[request.param]
    add_metadata(path, {"clustering": json.dumps(asdict(chosen))})
    return path, chosen


@pytest.fixture(scope="module")
def hits(exported, tmp_path_factory):
    """A CSV file of hits, its columns, and the embeddings that onnxruntime gives."""
    done, trained = exported
    columns = draw_sample(trained.features, trained.coords, (150,), seed=1).columns
    random = np.random.default_rng(0)
    columns["layer"] = random.integers(0, 10, 150).astype(np.float32)
    numbers = {"volume_id": [7, 8], "layer_id": [2, 4], "module_id": range(3)}
    path = tmp_path_factory.mktemp("hits") / "hits.csv"
    stored = {name: random.choice(values, 150) for name, values in numbers.items()} | columns
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(stored)
        writer.writerows(zip(*(column.tolist() for column in stored.values()), strict=True))
    session = onnxruntime.InferenceSession(str(done.out), providers=["CPUExecutionProvider"])
    (rows,) = session.run(None, {**columns, "offsets": np.array([0, 150])})
    return path, stored, rows.astype(np.float64)


@pytest.fixture(scope="module")
def tracks(model, hits):
    """What the package finds: by its tree without steps, or as components of a graph."""
    _, columns, rows = hits
    chosen = model[1]
    if chosen.method == "tree":
        label = grow_tracks(rows, *number_modules(columns, len(rows)), chosen.tree)
    else:
        distance = cdist(rows, rows)
        # No distance is so close to the limit that single precision could decide otherwise.
        assert np.abs(distance - chosen.eps).min() > 1e-6
        _, found = connected_components(distance < chosen.eps, directed=False)
        kept = np.bincount(found) >= chosen.min_points
        label = np.where(kept[found], (np.cumsum(kept) - 1)[found], -1)
    assert 5 < label.max() < 100
    return label


def read_tracks(text):
    header, *lines = text.splitlines()
    assert header == "point,track"
    points, tracks = np.array([line.split(",") for line in lines], int).T
    assert np.array_equal(points, np.arange(len(points)))
    return tracks


def test_in_python(model, hits, tracks):
    script = ROOT / "examples" / "onnx_python" / "inference.py"
    done = subprocess.run(
        [sys.executable, "-I", str(script), str(model[0]), str(hits[0])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert np.array_equal(read_tracks(done.stdout), tracks)


def test_a_bad_file_is_one_line_in_python(exported, tmp_path):
    path = tmp_path / "hits.csv"
    for text, message in (("eta\nforward\n", "expected one number"), ("eta\n1\n", "no column 'r'")):
        path.write_text(text)
        script = ROOT / "examples" / "onnx_python" / "inference.py"
        command = [sys.executable, "-I", str(script), str(exported[0].out), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert message in done.stderr


def find_onnxruntime():
    """Folders of the headers and of the library of onnxruntime for C++, or None where it is not installed."""
    if home := os.environ.get("ONNXRUNTIME_HOME"):
        return Path(home) / "include", Path(home) / "lib"
    for include in (Path("/usr/include/onnxruntime"), Path("/usr/local/include/onnxruntime")):
        if (include / "onnxruntime_cxx_api.h").exists():
            return include, include.parents[1] / "lib"
    return None


@pytest.fixture(scope="module")
def find_tracks(tmp_path_factory):
    """The C++ example, compiled."""
    compiler = next(filter(None, map(shutil.which, ("g++", "clang++", "c++"))), None)
    if compiler is None:
        pytest.skip("no C++ compiler")
    if (found := find_onnxruntime()) is None:
        pytest.skip("onnxruntime for C++ (libonnxruntime-dev, or ONNXRUNTIME_HOME) is not installed")
    include, library = found
    out = tmp_path_factory.mktemp("cpp") / "find_tracks"
    source = ROOT / "examples" / "onnx_cpp" / "find_tracks.cpp"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"]
    libraries = [f"-L{library}", f"-Wl,-rpath,{library}", "-lonnxruntime"]
    subprocess.run([compiler, *flags, str(source), f"-I{include}", *libraries, "-o", str(out)], check=True)
    return out


def test_in_cpp(find_tracks, model, hits, tracks):
    done = subprocess.run([find_tracks, model[0], hits[0]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(read_tracks(done.stdout), tracks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no such file, or an empty one"),
        ("hit,eta\n", "no hits"),
        ("hit,eta\n0,1\n", "no column"),
        ("hit,eta\n0\n", "1 cells for hit 1; expected 2"),
        ("hit,eta\n0,forward\n", "'forward' in column eta; expected a number"),
    ],
)
def test_bad_files_are_one_line_in_cpp(find_tracks, exported, tmp_path, text, message):
    path = tmp_path / "hits.csv"
    path.write_text(text)
    done = subprocess.run([find_tracks, exported[0].out, path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
