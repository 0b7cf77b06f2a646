"""Published folders: other people's tools read the same rows, and a folder is complete or absent."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml

import hepdata
from hepdata.errors import InputError, JobError


@pytest.fixture
def dataset(make_dataset, tmp_path) -> Path:
    """A dataset to be damaged."""
    make_dataset(tmp_path / "source")
    return tmp_path / "source"


@pytest.fixture(scope="module", params=["tracking", "pileup"])
def published(request, make_dataset, tmp_path_factory) -> Path:
    """A published dataset, with its source beside it; not to be changed."""
    folder = tmp_path_factory.mktemp("published")
    make_dataset(folder / "source", task=request.param)
    hepdata.publish(folder / "source", folder / "out", license="CC-BY-4.0", authors=["A. Physicist"])
    return folder / "out"


def read_header(folder: Path) -> dict:
    return yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---\n")[1])


def code_blocks(folder: Path) -> dict[str, str]:
    text = (folder / "README.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^With ([^\n]+):\n\n```python\n(.*?)```", text, re.DOTALL | re.MULTILINE))


def run_block(folder: Path, library: str, monkeypatch: pytest.MonkeyPatch) -> dict:
    monkeypatch.chdir(folder)
    names: dict = {}
    exec(code_blocks(folder)[library], names)
    return names


def expected(folder: Path, column: str) -> np.ndarray:
    return np.concatenate([cloud.columns[column] for cloud in hepdata.open_dataset(folder)["train"]])


def test_the_folder_is_the_same_dataset(published):
    source = published.with_name("source")
    assert hepdata.open_dataset(published).fingerprint == hepdata.open_dataset(source).fingerprint
    # Random clouds are not valid in every respect; publishing adds no finding.
    assert hepdata.validate(published) == hepdata.validate(source)


def test_sha256sum_checks_every_file(published):
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=published, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    checked = {line.partition(": ")[0] for line in done.stdout.splitlines()}
    there = {path.relative_to(published).as_posix() for path in published.rglob("*") if path.is_file()}
    assert checked == there - {"SHA256SUMS"}
    assert {"README.md", "croissant.json", "CITATION.cff", "dataset.json", "pictures/features.png"} <= checked


def test_datasets_streams_the_same_rows(published, monkeypatch):
    datasets = pytest.importorskip("datasets")
    splits = datasets.load_dataset(str(published), streaming=True)
    opened = hepdata.open_dataset(published)
    assert set(splits) == set(opened.splits)
    for split, rows in splits.items():
        found = list(rows)
        assert len(found) == len(opened[split])
        for row, cloud in zip(found, opened[split], strict=True):
            assert (row["event_id"], row["n_points"]) == (cloud.event_id, cloud.n_points)
            for name, values in cloud.columns.items():
                np.testing.assert_array_equal(np.asarray(row[name], values.dtype), values)
            if cloud.positives is not None:
                np.testing.assert_array_equal(row["pos_idx"], cloud.positives.idx)
                np.testing.assert_array_equal(row["neg_ptr"], cloud.negatives.ptr)


def test_the_header_gives_the_features_that_datasets_finds_in_the_files(published):
    datasets = pytest.importorskip("datasets")
    import pyarrow.parquet as pq

    schema = pq.read_schema(next(published.glob("train-*.parquet")))
    found = datasets.Features.from_arrow_schema(schema)._to_yaml_list()
    header = read_header(published)
    assert header["dataset_info"]["features"] == found
    assert header["license"] == "cc-by-4.0"
    assert [part["num_examples"] for part in header["dataset_info"]["splits"]] == [5, 2, 1]


@pytest.mark.parametrize("library", ["polars", "duckdb"])
def test_one_liners_of_points(published, library, monkeypatch):
    pytest.importorskip(library)
    points = run_block(published, library, monkeypatch)["points"]
    table = points.to_arrow_table() if library == "duckdb" else points.to_arrow()
    for name in ("eta", "phi"):
        # duckdb promises no order of rows.
        order = np.sort if library == "duckdb" else np.asarray
        np.testing.assert_array_equal(order(table[name].to_numpy()), order(expected(published, name)))


@pytest.mark.parametrize("library", ["pandas", "awkward"])
def test_one_liners_of_clouds(published, library, monkeypatch):
    clouds = run_block(published, library, monkeypatch)["clouds"]
    for name in ("eta", "phi"):
        found = np.concatenate([np.asarray(values) for values in clouds[name]])
        np.testing.assert_array_equal(found, expected(published, name))


def test_one_liners_of_hept_and_datasets(published, monkeypatch):
    pytest.importorskip("datasets")
    cloud = run_block(published, "hept", monkeypatch)["cloud"]
    row = next(iter(run_block(published, "Hugging Face datasets", monkeypatch)["rows"]))
    np.testing.assert_array_equal(np.asarray(row["eta"], np.float32), cloud.columns["eta"])
    assert set(code_blocks(published)) == {
        "hept",
        "Hugging Face datasets",
        "polars",
        "duckdb",
        "pandas",
        "awkward",
    }


def test_mlcroissant_accepts_the_metadata_and_reads_the_rows(published):
    mlcroissant = pytest.importorskip("mlcroissant")
    found = mlcroissant.Dataset(jsonld=published / "croissant.json")
    assert not found.metadata.ctx.issues.errors
    assert not found.metadata.ctx.issues.warnings
    opened = hepdata.open_dataset(published)
    for split in opened.splits:
        records = list(found.records(split))
        assert len(records) == len(opened[split])
        for record, cloud in zip(records, opened[split], strict=True):
            assert record[f"{split}/event_id"] == cloud.event_id
            np.testing.assert_array_equal(record[f"{split}/eta"], cloud.columns["eta"])
    files = {f.id: f.sha256 for f in found.metadata.distribution if f.id.endswith(".parquet")}
    assert files == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in published.glob("*.parquet")
    }


def test_citation_has_what_the_format_demands(published):
    citation = yaml.safe_load((published / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "dataset"
    assert citation["authors"] == [{"name": "A. Physicist"}]
    assert citation["license"] == "CC-BY-4.0"
    assert {"message", "title", "date-released"} <= set(citation)


def test_without_a_licence_the_card_says_so(dataset, tmp_path):
    hepdata.publish(dataset, tmp_path / "out")
    assert "Licence: not stated" in (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert read_header(tmp_path / "out")["license"] == "unknown"
    assert "license" not in yaml.safe_load((tmp_path / "out/CITATION.cff").read_text(encoding="utf-8"))


def test_hdf5_becomes_parquet(make_dataset, tmp_path):
    make_dataset(tmp_path / "source", file_format="hdf5")
    made = hepdata.publish(tmp_path / "source", tmp_path / "out")
    parquet = hepdata.convert(tmp_path / "source", tmp_path / "parquet")
    assert made.manifest.file_format == "parquet"
    assert made.manifest.fingerprint == parquet.fingerprint


def test_a_split_without_clouds_is_left_out_of_the_header(make_dataset, tmp_path):
    datasets = pytest.importorskip("datasets")
    make_dataset(tmp_path / "source", rows={"train": [2], "valid": [], "test": [1]})
    hepdata.publish(tmp_path / "source", tmp_path / "out")
    assert set(datasets.load_dataset(str(tmp_path / "out"), streaming=True)) == {"train", "test"}


def test_a_damaged_file_leaves_nothing(dataset, tmp_path):
    shard = next(dataset.glob("valid-*.parquet"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(JobError, match="another checksum than the manifest's"):
        hepdata.publish(dataset, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_a_missing_file_leaves_nothing(dataset, tmp_path):
    next(dataset.glob("valid-*.parquet")).unlink()
    with pytest.raises(JobError, match="no such file"):
        hepdata.publish(dataset, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_an_existing_folder_is_refused(dataset, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="already exists"):
        hepdata.publish(dataset, tmp_path / "out")


def test_a_licence_in_words_is_refused(dataset, tmp_path):
    with pytest.raises(InputError, match="SPDX identifier"):
        hepdata.publish(dataset, tmp_path / "out", license="do what you want")


def test_texts_of_the_user_cannot_break_the_card(dataset, tmp_path):
    title = "50 % | more: 'quotes' — \"and\"\n---\nlicense: mit"
    hepdata.publish(dataset, tmp_path / "out", title=title, license="MIT")
    one_line = " ".join(title.split())
    assert read_header(tmp_path / "out")["pretty_name"] == one_line
    assert yaml.safe_load((tmp_path / "out/CITATION.cff").read_text(encoding="utf-8"))["title"] == one_line
