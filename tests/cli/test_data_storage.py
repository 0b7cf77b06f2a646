"""The commands about datasets on disk: exit codes, one line per error, what is printed."""

import json

import pytest
import torch
from click.testing import CliRunner

import hepdata
from hept_cli import data_convert, data_export, data_import, data_info, data_merge, data_validate


def run(module, *arguments):
    return CliRunner().invoke(module.command, [str(argument) for argument in arguments])


def test_info_prints_and_writes_json(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    done = run(data_info, tmp_path / "a", "--json", tmp_path / "x.json")
    assert done.exit_code == 0
    assert "points per cloud" in done.output
    assert json.loads((tmp_path / "x.json").read_text())["splits"]["point clouds"]["all"] == 8


def table_rows(output):
    """First cell of every table row to the others, as printed."""
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if "│" in line]
    return {name: values for name, *values in cells}


def count_pairs(split):
    return sum(cloud.positives.n_pairs + cloud.negatives.n_pairs for cloud in split)


def test_convert_goes_to_the_other_format(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    done = run(data_convert, tmp_path / "a", tmp_path / "b", "--json", tmp_path / "x.json")
    assert done.exit_code == 0, done.output
    # Cloud i has 10 + 3 i points; there are 5, 2 and 1 of them.
    rows = table_rows(done.output)
    assert [rows[name][:2] for name in ("train", "valid", "test")] == [["5", "80"], ["2", "53"], ["1", "31"]]
    assert rows["total"][:2] == ["8", "164"]
    found = json.loads((tmp_path / "x.json").read_text())
    assert (found["format"], found["out"]) == ("hdf5", str(tmp_path / "b"))
    train = hepdata.open_dataset(tmp_path / "a")["train"]
    size = (tmp_path / "b" / "train.h5").stat().st_size
    assert found["splits"]["train"] == {
        "clouds": 5,
        "points": 80,
        "pairs": count_pairs(train),
        "files": 1,
        "bytes": size,
    }
    assert found["total"]["files"] == 3
    assert run(data_convert, tmp_path / "b", tmp_path / "c").exit_code == 0
    assert (
        hepdata.open_dataset(tmp_path / "c").fingerprint == hepdata.open_dataset(tmp_path / "a").fingerprint
    )


def test_merge_prints_what_came_out(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    make_dataset(tmp_path / "b", first_event=20)
    done = run(data_merge, tmp_path / "a", tmp_path / "b", tmp_path / "c", "--json", tmp_path / "x.json")
    assert done.exit_code == 0, done.output
    rows = table_rows(done.output)
    assert [rows[name][0] for name in ("train", "valid", "test", "total")] == ["10", "4", "2", "16"]
    found = json.loads((tmp_path / "x.json").read_text())
    assert found["merged"] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert found["fingerprint"] == hepdata.open_dataset(tmp_path / "c").fingerprint
    assert {split: entry["clouds"] for split, entry in found["splits"].items()} == {
        "train": 10,
        "valid": 4,
        "test": 2,
    }


def test_export_writes_a_padded_file(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", "pileup")
    out = tmp_path / "x.h5"
    arguments = ("--split", "valid", "--max-points", 20, "--json", tmp_path / "x.json")
    done = run(data_export, tmp_path / "a", out, *arguments)
    assert done.exit_code == 0, done.output
    # Clouds of 25 and 28 points, cut to 20.
    rows = table_rows(done.output)
    assert (rows["clouds"], rows["points"], rows["points that did not fit"]) == (["2"], ["53"], ["13"])
    found = json.loads((tmp_path / "x.json").read_text())
    assert (found["points_per_cloud"], found["points_lost"], found["scaled"]) == (20, 13, True)
    assert found["bytes"] == out.stat().st_size


def test_export_pads_to_the_largest_cloud(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", "pileup")
    done = run(data_export, tmp_path / "a", tmp_path / "x.h5", "--unscaled", "--json", tmp_path / "x.json")
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "x.json").read_text())
    assert (found["points_per_cloud"], found["points_lost"], found["scaled"]) == (22, 0, False)


def test_import_makes_a_dataset_that_validates(tmp_path, make_cloud):
    (tmp_path / "raw").mkdir()
    for event in range(4):
        cloud = make_cloud(n_points=30, event_id=event)
        pairs = torch.from_numpy(cloud.positives.as_edges().astype("int64"))
        tensors = {
            "x": torch.rand(30, 14) + torch.tensor([30.0] + [0.0] * 13),
            "layer": torch.from_numpy(cloud.layer),
            "particle_id": torch.from_numpy(cloud.particle_id),
            "point_pairs_index": pairs,
        }
        torch.save(tensors, tmp_path / "raw" / f"data{event}_s0.pt")
    done = run(data_import, tmp_path / "raw", tmp_path / "a")
    assert done.exit_code == 0, done.output
    assert run(data_validate, tmp_path / "a").output.endswith("all well\n")
    dataset = hepdata.open_dataset(tmp_path / "a")
    assert len(dataset) == 4
    assert dataset["train"][0].positives.n_pairs == make_cloud(n_points=30, event_id=0).positives.n_pairs
    assert len(dataset.manifest.sources) == 4


def test_validate_exits_with_one(hept_data, tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    path = sorted((tmp_path / "a").glob("*.parquet"))[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    code, output, error = hept_data("validate", tmp_path / "a", "--json", tmp_path / "x.json")
    assert code == 1
    assert path.name in output
    assert error.splitlines()[-1].startswith("error: ")
    assert len(json.loads((tmp_path / "x.json").read_text())) >= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "{tmp}/nothing"], "found no dataset.json"),
        (["validate", "{tmp}/nothing"], "found no dataset.json"),
        (["convert", "{tmp}/a", "{tmp}/a"], "something that already exists"),
        (["merge", "{tmp}/a", "{tmp}/a", "{tmp}/b"], "which is in split train of"),
        (["export", "{tmp}/a", "{tmp}/x.h5", "--split", "tset"], "did you mean 'test'?"),
        (["import", "{tmp}", "{tmp}/b"], "found no .pt files"),
    ],
)
def test_errors_are_one_line(hept_data, tmp_path, make_dataset, arguments, message):
    make_dataset(tmp_path / "a")
    code, _, error = hept_data(*(argument.format(tmp=tmp_path) for argument in arguments))
    assert code == 2
    assert error.startswith("error: ")
    assert len(error.splitlines()) == 1
    assert message in error


def test_outputs_are_urls_to_the_commands_too(hept_data, tmp_path, make_dataset, monkeypatch):
    """A path object would turn s3:// into a folder named s3: ."""
    monkeypatch.chdir(tmp_path)
    make_dataset(tmp_path / "a")
    done = run(data_convert, "a", "memory://commands/b")
    assert done.exit_code == 0, done.output
    assert "memory://commands/b" in done.output.replace("\n", "")
    assert len(hepdata.open_dataset("memory://commands/b")) == 8
    code, _, error = hept_data("convert", tmp_path / "a", "nonsense://bucket/b")
    assert (code, error.count("\n")) == (2, 1)
    assert "nonsense://bucket/b: found a location that cannot be used" in error
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_escapes_in_a_dataset_do_not_reach_the_terminal(hept_data, tmp_path, make_dataset):
    from hepdata.storage.dataset.manifest import _as_text
    from hepdata.storage.dataset.names import MANIFEST_NAME

    evil = "\x1b]0;owned\x07\x1b[2J"
    for name, first in (("a", 0), ("b", 50)):
        make_dataset(tmp_path / name, first_event=first)
        content = json.loads((tmp_path / name / MANIFEST_NAME).read_text())
        content.pop("checksum")
        content["columns"][3] |= {"meaning": evil, "unit": evil}
        content |= {"task": f"tracking{evil}", "configuration": {"source": {evil: evil}}}
        content["software"] = {evil: evil}
        content["skipped"] = [{"event_id": 1, "source": evil, "reason": evil}]
        (tmp_path / name / MANIFEST_NAME).write_bytes(_as_text(content))
    for arguments in (
        ("info", tmp_path / "a"),
        ("validate", tmp_path / "a"),
        ("convert", tmp_path / "a", tmp_path / "h5"),
        ("merge", tmp_path / "a", tmp_path / "b", tmp_path / "c"),
        ("export", tmp_path / "a", tmp_path / "pyg"),
    ):
        code, output, errors = hept_data(*arguments)
        assert "Traceback" not in errors, errors
        assert code in (0, 1, 2)
        assert "\x1b" not in output + errors
        assert "\x07" not in output + errors
