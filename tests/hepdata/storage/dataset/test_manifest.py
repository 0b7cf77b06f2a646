"""The manifest: read back as written, refused when damaged, too new, or absent."""

import json

import pytest

from hepdata.errors import InputError
from hepdata.schema import TRACKING
from hepdata.storage.dataset.manifest import FORMAT_VERSION, Manifest, _as_text
from hepdata.storage.dataset.names import MANIFEST_NAME


def rewrite(folder, **changes):
    content = json.loads((folder / MANIFEST_NAME).read_text())
    content.pop("checksum")
    (folder / MANIFEST_NAME).write_bytes(_as_text(content | changes))


def test_round_trip(tmp_path, make_dataset):
    manifest = make_dataset(tmp_path / "a")
    assert Manifest.read(tmp_path / "a") == manifest
    assert manifest.as_schema() == TRACKING
    assert manifest.statistics().n_clouds == 8
    assert manifest.statistics("valid").n_clouds == 2
    assert manifest.software["hept"]


def test_fingerprint_follows_the_bytes(tmp_path, make_dataset):
    first = make_dataset(tmp_path / "a")
    assert make_dataset(tmp_path / "b").fingerprint == first.fingerprint
    assert make_dataset(tmp_path / "c", first_event=1).fingerprint != first.fingerprint


def test_no_dataset(tmp_path):
    with pytest.raises(InputError, match=r"found no dataset\.json"):
        Manifest.read(tmp_path)


def test_newer_format_is_refused(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    rewrite(tmp_path / "a", format_version=FORMAT_VERSION + 1)
    with pytest.raises(
        InputError, match=rf"found format version {FORMAT_VERSION + 1}; expected at most.*upgrade"
    ):
        Manifest.read(tmp_path / "a")


def test_unknown_fields_of_the_same_version_are_ignored(tmp_path, make_dataset):
    manifest = make_dataset(tmp_path / "a")
    rewrite(tmp_path / "a", added_later=1)
    assert Manifest.read(tmp_path / "a") == manifest


def test_invalid_content_is_named(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    rewrite(tmp_path / "a", task=["jets"])
    with pytest.raises(InputError, match=r"an invalid manifest.*task"):
        Manifest.read(tmp_path / "a")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"not json", b"\xff\xfe"])
def test_text_that_is_no_manifest(tmp_path, text):
    (tmp_path / MANIFEST_NAME).write_bytes(text)
    with pytest.raises(InputError, match="text that is no manifest"):
        Manifest.read(tmp_path)


def test_every_flipped_byte_is_noticed(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", rows={"train": [1]})
    path = tmp_path / "a" / MANIFEST_NAME
    content = path.read_bytes()
    for position in range(0, len(content), 23):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 7)
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"dataset\.json"):
            Manifest.read(tmp_path / "a")
