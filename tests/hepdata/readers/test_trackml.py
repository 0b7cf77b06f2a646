import numpy as np
import pandas as pd
import pytest

from hepdata.errors import InputError
from hepdata.readers.trackml import read_event
from hepdata.readers.trackml_files import find_events


def read_first(folder, *, with_cells=True, with_truth=True):
    return read_event(find_events(folder)[0], with_cells=with_cells, with_truth=with_truth)


def part(folder, name):
    return folder / f"event000001000-{name}.csv"


def test_an_event_has_what_its_files_have(trackml_events):
    event = read_first(trackml_events)
    truth = pd.read_csv(part(trackml_events, "truth"))
    hits = pd.read_csv(part(trackml_events, "hits"))
    assert event.hits["hit_id"].tolist() == hits.hit_id.tolist()
    assert event.particle_id.tolist() == truth.particle_id.tolist()
    assert event.particle_id.max() > 2**53
    assert event.weight.tolist() == truth.weight.tolist()
    assert len(event.cells["hit_id"]) == len(pd.read_csv(part(trackml_events, "cells")))


def test_rows_in_any_order_give_the_same_event(trackml_events, trackml_copy, edit_csv):
    for seed, name in enumerate(("hits", "cells", "truth", "particles")):
        edit_csv(part(trackml_copy, name), lambda table, seed=seed: table.sample(frac=1, random_state=seed))
    ordered, shuffled = read_first(trackml_events), read_first(trackml_copy)
    assert (ordered.particle_id == shuffled.particle_id).all()
    assert (ordered.weight == shuffled.weight).all()
    for name in ("hits", "particles"):
        ours, theirs = getattr(ordered, name), getattr(shuffled, name)
        assert all((ours[key] == theirs[key]).all() for key in ours)
    totals = [np.bincount(event.cells["hit_id"], event.cells["value"]) for event in (ordered, shuffled)]
    assert np.allclose(*totals)
    assert (np.diff(shuffled.cells["hit_id"]) >= 0).all()


def test_parts_that_are_not_asked_for_are_not_needed(trackml_copy):
    for name in ("cells", "truth", "particles"):
        part(trackml_copy, name).unlink()
    event = read_first(trackml_copy, with_cells=False, with_truth=False)
    assert (event.cells, event.particle_id, event.weight, event.particles) == (None,) * 4


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("hits", "the hits are the event itself"),
        ("cells", "`cell_features=False`"),
        ("truth", "`unlabelled=True`"),
        ("particles", "`unlabelled=True`"),
    ],
)
def test_a_missing_part(trackml_copy, name, remedy):
    part(trackml_copy, name).unlink()
    with pytest.raises(InputError, match=f"event 1000: found no {name} file .*{remedy}"):
        read_first(trackml_copy)


def cut_end(path, n_bytes):
    path.write_bytes(path.read_bytes()[:-n_bytes])


def test_files_without_a_last_line_end_are_read_where_their_ids_agree(trackml_events, trackml_copy):
    for name in ("hits", "cells", "truth", "particles"):
        cut_end(part(trackml_copy, name), 1)
    whole, ended = read_first(trackml_events), read_first(trackml_copy)
    for name in ("hits", "cells", "particles"):
        ours, theirs = getattr(whole, name), getattr(ended, name)
        assert all((ours[key] == theirs[key]).all() for key in ours)
    assert (whole.weight == ended.weight).all()
    # Nothing else counts the hits.
    with pytest.raises(InputError, match=r"hits.csv: found a last line without a line end"):
        read_first(trackml_copy, with_cells=False, with_truth=False)


@pytest.mark.parametrize("name", ["hits", "cells", "truth"])
def test_files_that_end_in_an_earlier_line_are_refused(trackml_copy, name):
    lines = part(trackml_copy, name).read_bytes().splitlines()
    part(trackml_copy, name).write_bytes(b"\n".join(lines[: len(lines) // 2]))
    with pytest.raises(InputError, match=r"no truth for hit|no cells for hit|which the hits file lacks"):
        read_first(trackml_copy)


def test_an_empty_event(trackml_copy, edit_csv):
    edit_csv(part(trackml_copy, "hits"), lambda table: table[:0])
    with pytest.raises(InputError, match="found no hits"):
        read_first(trackml_copy)


@pytest.mark.parametrize("name", ["hits", "truth"])
def test_a_doubled_hit(trackml_copy, edit_csv, name):
    edit_csv(part(trackml_copy, name), lambda table: pd.concat([table, table[5:6]]))
    with pytest.raises(InputError, match=f"{name}.csv: found hit_id 6 twice"):
        read_first(trackml_copy)


def test_a_doubled_particle(trackml_copy, edit_csv):
    edit_csv(part(trackml_copy, "particles"), lambda table: pd.concat([table[3:4], table]))
    with pytest.raises(InputError, match=r"particles.csv: found particle_id \d+ twice"):
        read_first(trackml_copy)


@pytest.mark.parametrize("name", ["cells", "truth"])
def test_a_hit_without_its_rows(trackml_copy, edit_csv, name):
    edit_csv(part(trackml_copy, name), lambda table: table[table.hit_id != 6])
    with pytest.raises(InputError, match=rf"no {name} for hit 6 \(1 such hits\)"):
        read_first(trackml_copy)


@pytest.mark.parametrize("name", ["cells", "truth"])
def test_rows_of_an_unknown_hit(trackml_copy, edit_csv, name):
    edit_csv(part(trackml_copy, name), lambda table: pd.concat([table, table[:1].assign(hit_id=999_999)]))
    with pytest.raises(InputError, match=f"{name} of hit 999999, which the hits file lacks"):
        read_first(trackml_copy)


def test_no_cells_at_all(trackml_copy, edit_csv):
    edit_csv(part(trackml_copy, "cells"), lambda table: table[:0])
    with pytest.raises(InputError, match="no cells for hit 1"):
        read_first(trackml_copy)


def test_a_particle_without_record(trackml_copy, edit_csv):
    event = read_first(trackml_copy)
    lost = event.particle_id[event.particle_id > 0][0]
    edit_csv(part(trackml_copy, "particles"), lambda table: table[table.particle_id != lost])
    with pytest.raises(InputError, match=f"no particle {lost}, which the truth file names"):
        read_first(trackml_copy)


def test_a_negative_particle_id(trackml_copy, edit_csv):
    edit_csv(part(trackml_copy, "truth"), lambda table: table.assign(particle_id=-table.particle_id))
    with pytest.raises(
        InputError, match=r"column 'particle_id', line \d+: found -\d+; expected a number from 0"
    ):
        read_first(trackml_copy)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("hits", "x", 1e30),
        ("cells", "value", -0.5),
        ("cells", "ch0", 9_000_000_000),
        ("cells", "ch1", -3),
        ("particles", "px", 1e12),
    ],
)
def test_absurd_values(trackml_copy, edit_csv, name, column, value):
    def spoil(table):
        return table.assign(**{column: [value, *table[column][1:]]})

    edit_csv(part(trackml_copy, name), spoil)
    with pytest.raises(InputError, match=rf"column '{column}', line 2: found .*; expected a number from"):
        read_first(trackml_copy)


@pytest.mark.parametrize(
    ("column", "value"), [("hit_id", -4), ("hit_id", 2**31), ("volume_id", 2**15), ("layer_id", -1)]
)
def test_numbers_out_of_range(trackml_copy, edit_csv, column, value):
    def spoil(table):
        table.loc[0, column] = value
        return table

    edit_csv(part(trackml_copy, "hits"), spoil)
    with pytest.raises(InputError, match=f"'{column}', line 2: found {value}; expected a number from 0"):
        read_first(trackml_copy)
