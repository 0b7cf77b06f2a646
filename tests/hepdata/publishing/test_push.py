"""Uploads to a hub: one commit with all files; killed or refused, the same command sends the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("huggingface_hub")


@pytest.fixture
def push(hub, make_dataset, tmp_path):
    """Run `hept-data publish --push` against the stand-in, in a process of its own.

    The package reads the address of the hub and the way of uploading from the environment at import.
    """
    make_dataset(tmp_path / "source")

    def run(*options: str, endpoint: str = hub.url) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "HF_ENDPOINT": endpoint,
            "HF_TOKEN": "hf_of_nobody",
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_XET": "1",
        }
        options = options or ("--push", "hf://physicist/tracks")
        words = [
            "publish",
            str(tmp_path / "source"),
            "--to",
            str(tmp_path / "out"),
            "--events",
            "0",
            *options,
        ]
        command = [sys.executable, "-m", "hepdata", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return run


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_one_commit_has_every_file(push, hub, tmp_path):
    done = push("--push", "hf://physicist/tracks", "--private")
    assert done.returncode == 0, done.stderr
    assert len(hub.commits) == 2
    assert hub.commits[-1] == {**files_of(tmp_path / "out"), ".gitattributes": b"* text\n"}
    assert hub.private is True
    assert f"/commit/{hub.head}" in done.stdout
    assert "huggingface.co/datasets/physicist/tracks" in hub.commits[-1]["README.md"].decode()


def test_a_refused_upload_shows_nothing_and_continues(push, hub, tmp_path):
    hub.room = 2
    done = push()
    assert done.returncode == 1
    assert "error: hf://physicist/tracks" in done.stderr
    assert "run the same command again" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(hub.commits) == 1
    before, hub.room = list(hub.received), None
    done = push()
    assert done.returncode == 0, done.stderr
    assert hub.received[: len(before)] == before
    assert len(hub.received) == len(set(hub.received)), "a file was sent twice"
    assert hub.commits[1:] == [{**files_of(tmp_path / "out"), ".gitattributes": b"* text\n"}]


def test_files_of_an_earlier_version_go_in_the_same_commit(push, hub):
    hub.commits.append({**hub.commits[-1], "train-00000-of-00009.parquet": b"old"})
    done = push()
    assert done.returncode == 0, done.stderr
    assert len(hub.commits) == 3
    assert "train-00000-of-00009.parquet" not in hub.commits[-1]


def test_a_dead_server_is_one_line(push, tmp_path):
    done = push(endpoint="http://127.0.0.1:9")
    assert done.returncode == 1
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.stderr
    assert (tmp_path / "out" / "SHA256SUMS").is_file()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda out: (out / "README.md").write_text("mine"), "the file 'README.md' changed or missing"),
        (lambda out: (out / "dataset.json").unlink(), "not published from a dataset"),
        (lambda out: (out / "SHA256SUMS").unlink(), "no SHA256SUMS"),
    ],
)
def test_a_changed_folder_is_not_uploaded(push, hub, tmp_path, change, message):
    push("--title", "Point clouds", "--url", "https://example.org/tracks")
    change(tmp_path / "out")
    done = push(
        "--title", "Point clouds", "--url", "https://example.org/tracks", "--push", "hf://physicist/tracks"
    )
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert len(hub.commits) == 1


def test_a_folder_with_other_settings_is_not_uploaded(push, hub):
    assert push("--license", "MIT", "--url", "https://example.org/tracks").returncode == 0
    done = push("--push", "hf://physicist/tracks", "--license", "CC0-1.0")
    assert done.returncode == 2
    assert "another title, licence" in " ".join(done.stderr.split())
    assert len(hub.commits) == 1


@pytest.mark.parametrize("address", ["https://huggingface.co/physicist/tracks", "hf://../..", "hf://a/b.git"])
def test_another_address_is_refused_before_any_work(push, tmp_path, address):
    done = push("--push", address)
    assert done.returncode == 2
    assert "expected hf://user/name" in done.stderr
    assert not (tmp_path / "out").exists()
