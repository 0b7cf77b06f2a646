import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hepdata.errors import InputError
from hept.tracks.files import read_tracks

ROWS = pd.DataFrame({"event_id": [7, 3, 3, 3], "hit_id": [1, 5, 6, 9], "track_id": [0, 2, -1, 2]})


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.csv.gz"])
def test_hits_of_tracks_are_read_by_event(tmp_path, name):
    path = tmp_path / name
    ROWS.to_parquet(path) if name.endswith("parquet") else ROWS.to_csv(path, index=False)
    found = read_tracks(path)
    assert found.events.tolist() == [3, 7]
    assert [part.tolist() for part in found.of_event(3)] == [[5, 9], [2, 2]]
    assert [part.tolist() for part in found.of_event(7)] == [[1], [0]]
    assert [len(part) for part in found.of_event(5)] == [0, 0]


def test_colliderml_tracks_share_hits(tmp_path):
    rows = {"event_id": [4, 2], "hit_ids": [[[1, 2, 3], [3, 4]], []]}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    found = read_tracks(tmp_path / "t.parquet")
    assert [part.tolist() for part in found.of_event(4)] == [[1, 2, 3, 3, 4], [0, 0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"event_id": [1], "hit": [1]},
            "found the columns event_id, hit; expected event_id, hit_id and track",
        ),
        (
            {"event_id": [1], "hit_id": [1.5], "track_id": [0]},
            "hit_id of type double with values that are no",
        ),
        ({"event_id": [1], "hit_ids": [[3]]}, r"found hit_ids of type list<.*>; expected for every event a"),
    ],
)
def test_unusable_files_are_one_line(tmp_path, table, message):
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=message):
        read_tracks(tmp_path / "t.parquet")


def test_a_missing_or_damaged_file_is_one_line(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"nothing")
    for name in ("t.parquet", "nowhere.csv"):
        with pytest.raises(InputError, match="found a file that cannot be read"):
            read_tracks(tmp_path / name)


def test_numbers_beyond_float_are_exact(tmp_path):
    large = 2**60 + 1
    pd.DataFrame({"event_id": [large], "hit_id": [large], "track_id": [large]}).to_csv(
        tmp_path / "t.csv", index=False
    )
    found = read_tracks(tmp_path / "t.csv")
    np.testing.assert_array_equal(found.of_event(large), [[large], [large]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("event_id,hit_id,track_id\n1,,0\n1,2,0\n", "hit_id of type int64 with values that are no"),
        ("event_id,event_id,hit_id,track_id\n1,1,2,0\n", "a column twice"),
        ("event_id,hit_id,track_id\n1,2,0\n1,3,1", "a last line without a line end"),
    ],
)
def test_missing_doubled_and_cut_values_are_one_line(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_tracks(tmp_path / "t.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_pipe_is_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="found a pipe, a device or a folder"):
        read_tracks(tmp_path / name)
