import gzip
import zipfile
from pathlib import Path

import pytest

from hepdata.errors import InputError
from hepdata.readers.trackml_files import RawFile, checksum_files, find_detectors, find_events


def test_events_come_in_order_of_their_id_with_all_parts(trackml_events):
    events = find_events(trackml_events)
    assert [event.event_id for event in events] == list(range(1000, 1006))
    assert set(events[0].parts) == {"hits", "cells", "particles", "truth"}
    assert events[0].stem == "event000001000"


def test_a_zip_gives_the_same_bytes_as_the_folder(trackml_events, tmp_path):
    archive = tmp_path / "events.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for path in sorted(trackml_events.iterdir()):
            target.write(path, f"train_100_events/{path.name}")
        target.writestr("__MACOSX/train_100_events/event000001000-hits.csv", b"resource fork")
    folder, zipped = find_events(trackml_events), find_events(archive)
    assert [event.event_id for event in zipped] == [event.event_id for event in folder]
    for ours, theirs in zip(folder, zipped, strict=True):
        assert all(ours.parts[part].read() == theirs.parts[part].read() for part in ours.parts)
    assert find_detectors(archive).read() == find_detectors(trackml_events).read()


def test_a_gzipped_member_of_a_zip_is_decompressed(tmp_path):
    archive = tmp_path / "events.zip"
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr("event000000007-hits.csv.gz", gzip.compress(b"hit_id\n1\n"))
    (event,) = find_events(archive)
    assert event.parts["hits"].read() == b"hit_id\n1\n"


def test_nothing_at_the_path():
    with pytest.raises(InputError, match="nothing at this path"):
        find_events(Path("no/such/folder"))


def test_a_folder_without_events(tmp_path):
    (tmp_path / "notes.csv").write_text("a,b\n")
    (tmp_path / "myevent000000001-hits.csv").write_text("a,b\n")
    with pytest.raises(InputError, match="no event; expected files named event"):
        find_events(tmp_path)


def test_a_file_that_is_no_zip(tmp_path):
    path = tmp_path / "events.zip"
    path.write_bytes(b"not a zip")
    with pytest.raises(InputError, match="not a zip archive"):
        find_events(path)


def test_an_event_that_is_there_twice(tmp_path):
    (tmp_path / "event000000001-hits.csv").write_text("")
    (tmp_path / "event000000001-hits.csv.gz").write_bytes(b"")
    with pytest.raises(InputError, match="the hits of event 1 twice"):
        find_events(tmp_path)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_truncated_gzip(tmp_path, keep):
    whole = gzip.compress(b"hit_id,x\n" * 1000)
    path = tmp_path / "event000000001-hits.csv.gz"
    path.write_bytes(whole[: max(5, int(len(whole) * keep))])
    with pytest.raises(InputError, match="truncated or damaged"):
        RawFile(None, str(path)).read()


def test_gzip_with_a_flipped_bit(tmp_path):
    content = bytearray(gzip.compress(b"".join(b"%d,%d\n" % (i, i * i) for i in range(1000))))
    content[len(content) // 2] ^= 4
    path = tmp_path / "event000000001-hits.csv.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="truncated or damaged"):
        RawFile(None, str(path)).read()


def test_a_file_that_has_gone(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        RawFile(None, str(tmp_path / "event000000001-hits.csv")).read()


def test_two_detectors_files_are_not_guessed_between(trackml_copy):
    (trackml_copy / "other").mkdir()
    (trackml_copy / "other" / "detectors.csv.gz").write_bytes(b"")
    assert find_detectors(trackml_copy) is None


def test_checksums_are_those_of_the_system(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert checksum_files([path]) == [(3, digest)]


def test_the_checksum_of_a_file_that_has_gone(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        checksum_files([tmp_path / "gone"])
