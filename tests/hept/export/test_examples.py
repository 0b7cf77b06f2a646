"""The examples without this package: from a CSV file of hits to tracks, in Python and in C++."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from hept.export.sample import draw_sample

ROOT = Path(__file__).parents[3]
EPS, MIN_POINTS = 0.15, 2


@pytest.fixture(scope="module")
def hits(exported, tmp_path_factory):
    """A CSV file of hits, and the tracks of the embeddings that onnxruntime gives."""
    done, trained = exported
    columns = draw_sample(trained.features, trained.coords, (120,), seed=1).columns
    path = tmp_path_factory.mktemp("hits") / "hits.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["hit", *columns])
        writer.writerows(zip(range(120), *(column.tolist() for column in columns.values()), strict=True))
    session = onnxruntime.InferenceSession(str(done.out), providers=["CPUExecutionProvider"])
    (rows,) = session.run(None, {**columns, "offsets": np.array([0, 120])})
    distance = cdist(rows, rows)
    # No distance is so close to the limit that single precision could decide otherwise.
    assert np.abs(distance - EPS).min() > 1e-6
    _, label = connected_components(distance < EPS, directed=False)
    kept = np.bincount(label) >= MIN_POINTS
    tracks = np.where(kept[label], (np.cumsum(kept) - 1)[label], -1)
    assert 1 < tracks.max() < 119
    return path, tracks


def read_tracks(text):
    header, *lines = text.splitlines()
    assert header == "point,track"
    points, tracks = np.array([line.split(",") for line in lines], int).T
    assert np.array_equal(points, np.arange(len(points)))
    return tracks


def test_in_python(exported, hits):
    path, tracks = hits
    script = ROOT / "examples" / "onnx_python" / "inference.py"
    done = subprocess.run(
        [sys.executable, "-I", str(script), str(exported[0].out), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert np.array_equal(read_tracks(done.stdout), tracks)


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


def test_in_cpp(find_tracks, exported, hits):
    path, tracks = hits
    done = subprocess.run(
        [find_tracks, exported[0].out, path, str(EPS), str(MIN_POINTS)],
        capture_output=True,
        text=True,
        check=False,
    )
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
