import json
import pickle

import awkward as ak
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot

import hepdata
from hepdata.errors import InputError
from hepdata.pipeline.event_range import EventRange
from hepdata.pipeline.table_source import open_tables
from hepdata.readers import table_csv, table_hdf5, table_root

SCHEMA = """
task: showers
event: event
columns:
  cell: {source: id}
  eta:
  phi: {unit: deg, period: 360}
  energy: {unit: GeV}
  sampling: {n_classes: 3}
  shower: {}
coordinates: [eta, {column: phi, scale: 0.017453292519943295}]
features: [eta, {column: energy, compression: log}, sampling]
target: {objective: pairs, label: shower, point_id: cell}
"""


def draw(n_events=12):
    """Events of 30 to 60 cells with numbers that are not consecutive."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(30, 60, n_events)
    n = sizes.sum()
    return pd.DataFrame(
        {
            "event": np.repeat(7 + 3 * np.arange(n_events), sizes),
            "id": np.arange(n) + 2**20,
            "eta": rng.normal(size=n).astype(np.float32),
            "phi": rng.uniform(-180, 180, n).astype(np.float32),
            "energy": rng.exponential(size=n).astype(np.float32),
            "sampling": rng.integers(0, 3, n),
            "shower": rng.integers(0, 5, n) * 2**40,
        }
    )


TABLE = draw()


def write(folder, kind, table=TABLE):
    """The same points in a file of each kind."""
    path = folder / f"t-{kind}.{kind.split('-')[-1]}"
    groups = [g for _, g in table.groupby("event", sort=False)]
    lists = {
        name: ak.Array([g[name].to_numpy() for g in groups]) for name in table.columns if name != "event"
    }
    numbers = np.array([g.event.iloc[0] for g in groups])
    match kind:
        case "flat-parquet":
            # Row groups that begin within events.
            table.to_parquet(path, index=False, row_group_size=100)
        case "lists-parquet":
            columns = {name: pa.array([g[name].to_numpy() for g in groups]) for name in lists}
            pq.write_table(pa.table({"event": numbers, **columns}), path, row_group_size=5)
        case "csv" | "csv.gz":
            path = folder / f"t.{kind}"
            table.to_csv(path, index=False)
        case "fields-h5":
            with h5py.File(path, "w") as file:
                file["cells"] = table.to_records(index=False)
        case "columns-h5":
            with h5py.File(path, "w") as file:
                for name in table.columns:
                    file[f"below/{name}"] = table[name].to_numpy()
        case "flat-root" | "lists-root" | "ntuple-root":
            flat = {name: table[name].to_numpy() for name in table.columns}
            columns = flat if kind == "flat-root" else {"event": numbers, **lists}
            with uproot.recreate(path) as file:
                if kind == "ntuple-root":
                    file.mkrntuple("cells", columns)
                else:
                    types = {name: values.dtype for name, values in flat.items()}
                    jagged = {"event": numbers.dtype} | {n: f"var * {types[n]}" for n in lists}
                    file.mktree("cells", types if kind == "flat-root" else jagged).extend(columns)
    return path


@pytest.fixture
def schema(tmp_path):
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return tmp_path / "schema.yaml"


def clouds_of(source):
    return [cloud for _, (cloud,) in source.read_clouds(source.list_events())]


def test_clouds_hold_the_points_of_the_table(schema, tmp_path):
    built = hepdata.build_table(write(tmp_path, "flat-parquet"), tmp_path / "d", schema=schema)
    found = {cloud.event_id: cloud for split in built.splits for cloud in built[split]}
    assert list(found) == sorted(set(TABLE.event))
    for event, expected in TABLE.groupby("event"):
        cloud = found[event]
        order = np.argsort(cloud.cell)
        np.testing.assert_array_equal(cloud.cell[order], expected.id)
        for name in ("eta", "phi", "energy", "sampling", "shower"):
            np.testing.assert_array_equal(cloud.columns[name][order], expected[name])
    assert [column.dtype for column in built.schema.columns] == [
        "int32",
        "float32",
        "float32",
        "float32",
        "int32",
        "int64",
    ]
    assert built.schema.column("shower").is_label
    manifest = json.loads((tmp_path / "d" / "dataset.json").read_text())
    assert manifest["configuration"]["source"]["target"]["objective"] == "pairs"


def test_pairs_are_those_of_the_definition_on_a_circle_of_360_degrees(schema, tmp_path):
    built = hepdata.build_table(write(tmp_path, "csv"), tmp_path / "d", schema=schema, negatives=7)
    cloud = built["train"][0]
    eta, phi, shower = cloud.eta.astype(float), np.radians(cloud.phi.astype(float)), cloud.shower
    step = np.abs(phi[:, None] - phi)
    distance = np.hypot(eta[:, None] - eta, np.minimum(step, 2 * np.pi - step))
    same = shower[:, None] == shower
    distance[same] = np.inf
    for point in range(cloud.n_points):
        near = sorted(np.argsort(distance[point])[:7])
        assert cloud.negatives.row(point).tolist() == near
        mates = np.flatnonzero(same[point] & (shower[point] != 0))
        assert cloud.positives.row(point).tolist() == mates[mates != point].tolist()


def test_pairs_in_millimetres(schema, tmp_path):
    schema.write_text(
        SCHEMA.replace("period: 360", "period: null").replace(", scale: 0.017453292519943295", "")
    )
    source = write(tmp_path, "flat-parquet", TABLE.assign(eta=TABLE.eta * 500))
    built = hepdata.build_table(source, tmp_path / "d", schema=schema, negatives=7)
    cloud = built["train"][0]
    eta, phi = cloud.eta.astype(float), cloud.phi.astype(float)
    distance = np.hypot(eta[:, None] - eta, phi[:, None] - phi)
    distance[cloud.shower[:, None] == cloud.shower] = np.inf
    for point in range(cloud.n_points):
        assert cloud.negatives.row(point).tolist() == sorted(np.argsort(distance[point])[:7])


KINDS = [
    "flat-parquet",
    "lists-parquet",
    "csv",
    "csv.gz",
    "fields-h5",
    "columns-h5",
    "flat-root",
    "lists-root",
    "ntuple-root",
]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_every_format_gives_the_same_clouds(schema, tmp_path, kind, monkeypatch):
    # Chunks that begin within events.
    monkeypatch.setattr(table_csv, "BLOCK", 1000)
    monkeypatch.setattr(table_hdf5, "ROWS", 70)
    monkeypatch.setattr(table_root, "STEP_BYTES", 3000)
    expected = clouds_of(open_tables([str(write(tmp_path, "flat-parquet"))], schema))
    source = open_tables([str(write(tmp_path, kind))], schema)
    assert len(set(map(tuple, source.index[:, 1:3]))) > 1
    found = clouds_of(pickle.loads(pickle.dumps(source)))
    assert len(found) == len(expected)
    for cloud, other in zip(found, expected, strict=True):
        assert cloud.event_id == other.event_id
        for name in other.columns:
            np.testing.assert_array_equal(cloud.columns[name], other.columns[name])


def test_several_files_and_a_range_of_events(schema, tmp_path):
    for part, rows in (("a", TABLE.event < 22), ("b", TABLE.event >= 22)):
        (tmp_path / part).mkdir()
        TABLE[rows].to_parquet(tmp_path / part / "t.parquet")
    inputs = [str(tmp_path / "b" / "t.parquet"), str(tmp_path / "a" / "*.parquet")]
    source = open_tables(inputs, schema, events=EventRange(10, 30))
    assert [event.event_id for event in source.list_events()] == [10, 13, 16, 19, 22, 25, 28]
    assert [len(TABLE[TABLE.event == cloud.event_id]) for cloud in clouds_of(source)] == [
        cloud.n_points for cloud in clouds_of(source)
    ]


def test_rows_of_lists_are_numbered_and_empty_ones_left_out(schema, tmp_path):
    schema.write_text(SCHEMA.replace("event: event\n", "") + "\n")
    columns = ("id", "eta", "phi", "energy", "sampling", "shower")
    lists = {name: [TABLE[name][:3].tolist(), [], TABLE[name][3:9].tolist()] for name in columns}
    # A value of the whole event is one of each of its points.
    lists["energy"] = [1.5, 2.5, 3.5]
    pq.write_table(pa.table(lists), tmp_path / "t.parquet")
    built = hepdata.build_table(tmp_path / "t.parquet", tmp_path / "d", schema=schema, split="100/0/0")
    assert [(c.event_id, c.n_points, set(c.energy.tolist())) for c in built["train"]] == [
        (0, 3, {1.5}),
        (2, 6, {3.5}),
    ]
    assert [(event.event_id, event.reason) for event in built.summary.skipped] == [(1, "no points")]


def test_the_same_bytes_from_two_workers_and_after_a_stop(schema, tmp_path):
    file = write(tmp_path, "flat-parquet")
    one = hepdata.build_table(file, tmp_path / "one", schema=schema, select="energy > 0.1")
    bad = TABLE.copy()
    bad.loc[len(bad) - 1, "eta"] = np.nan
    write(tmp_path, "flat-parquet", bad)
    with pytest.raises(InputError, match=r"event 40, column 'eta': found nan at point \d+ \(1 such values\)"):
        hepdata.build_table(file, tmp_path / "two", schema=schema, select="energy > 0.1")
    write(tmp_path, "flat-parquet")
    two = hepdata.build_table(
        file, tmp_path / "two", schema=schema, select="energy > 0.1", workers=2, overwrite=True
    )
    assert one.fingerprint == two.fingerprint


def test_classification_and_unlabelled(schema, tmp_path):
    schema.write_text(
        SCHEMA.replace("objective: pairs, label: shower", "objective: classification, label: good")
    )
    with pytest.raises(InputError, match=r"target\.label: found the unknown column 'good'"):
        hepdata.build_table(write(tmp_path, "csv"), tmp_path / "d", schema=schema)
    schema.write_text(schema.read_text().replace("shower: {}", "good: {source: is_good}"))
    file = write(tmp_path, "csv", TABLE.assign(is_good=(TABLE.shower > 0).astype(int)))
    with pytest.raises(
        InputError, match="`pairs`: found 'paper'; expected labels of a target with the objective"
    ):
        hepdata.build_table(file, tmp_path / "d", schema=schema, pairs="paper")
    built = hepdata.build_table(file, tmp_path / "d", schema=schema)
    assert built["train"][0].good.dtype == bool
    assert built["train"][0].positives is None
    bare = hepdata.build_table(write(tmp_path, "csv"), tmp_path / "bare", schema=schema, unlabelled=True)
    assert not bare.schema.has_column("good")
    assert bare.summary.n_points == built.summary.n_points


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="eta"), r"column 'eta': found no such column.*choose one of"),
        (
            lambda t: t.drop(columns="event"),
            r"column 'event': found no such column; expected the event number",
        ),
        (
            lambda t: t.assign(event=t.event + 0.5),
            "found numbers that are not whole; expected one whole number",
        ),
        (lambda t: t.assign(event=-t.event), "found event -40; expected event numbers from 0 on"),
        (lambda t: t.sample(frac=1, random_state=0), r"found rows of event \d+ in two places"),
        (lambda t: t.assign(eta="a"), "column 'eta': found values that are no numbers"),
        (lambda t: t.assign(eta=np.inf), r"event 7, column 'eta': found inf at point 0"),
        (lambda t: t.assign(eta=1e300), "expected a number that float32 can hold"),
        (lambda t: t.assign(sampling=3), "found 3 at point 0 .* expected a class from 0 to 2"),
        (lambda t: t.assign(id=t.id + 2**40), "expected a number that int32 can hold; repair .* `dtype`"),
        (lambda t: t.assign(shower=t.shower + 0.5), "expected a number that int64 can hold"),
        (lambda t: t.assign(id=t.id.astype("Int64").mask(t.index == 5)), "1 empty values in the column 'id'"),
        (lambda t: t[:0], "found no event"),
    ],
)
def test_bad_tables_are_one_line_and_leave_nothing(schema, tmp_path, change, message):
    change(TABLE).to_parquet(tmp_path / "t.parquet", index=False)
    with pytest.raises(InputError, match=message) as error:
        hepdata.build_table(tmp_path / "t.parquet", tmp_path / "d", schema=schema)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("task: showers", "", "found no 'task'"),
        ("task: showers", "tesk: showers", "found (no 'task'|the unknown key 'tesk'.*did you mean 'task')"),
        ("event: event", "", "found no event number.*write `event: NAME` with one of event, id"),
        ("unit: GeV", "units: GeV", r"the unknown key 'columns.energy.units'.*did you mean 'unit'"),
        ("period: 360", "period: -1", "columns.phi.period = -1"),
        ("objective: pairs", "objective: pears", "target.objective = 'pears'"),
        ("label: shower", "label: showers", "unknown column 'showers'.*did you mean 'shower'"),
        ("[eta, {column: phi, ", "[ete, {column: phi, ", "coordinates, column 'ete': found no such column"),
        ("features: [eta", "features: [shower, eta", "features: found the label 'shower'"),
        ("  eta:\n", "  eta: {period: 1}\n", "two periodic coordinates first"),
        ("coordinates: [eta, ", "coordinates: [eta, shower, ", "coordinates: found the label 'shower'"),
        ("  eta:\n", "  eta:\n  sector: {source: id}\n", "a column with the name 'sector'"),
        (
            "shower: {}\ncoordinates: [eta, {column: phi, scale: 0.017453292519943295}]\n"
            "features: [eta, {column: energy, compression: log}, sampling]\n"
            "target: {objective: pairs, label: shower, point_id: cell}",
            "index_in_source: {source: id}\n  shower: {}\ncoordinates: [eta, phi]\nfeatures: [eta]\n"
            "target: {objective: pairs, label: shower}",
            "the column 'index_in_source' twice",
        ),
        ("point_id: cell", "point_id: energy", "the point_id 'energy' of type float32"),
        ("point_id: cell", "point_id: cell, selection: cell", "the selection 'cell' of type int32"),
        ("n_classes: 3", "n_classes: 3, dtype: float32", "classes of type float32 in the column 'sampling'"),
        ("columns:", "columns: [", "expected a YAML file"),
    ],
)
def test_bad_schemas_are_one_line(schema, tmp_path, old, new, message):
    assert old in SCHEMA
    schema.write_text(SCHEMA.replace(old, new))
    with pytest.raises(InputError, match=message) as error:
        hepdata.build_table(write(tmp_path, "flat-parquet"), tmp_path / "d", schema=schema)
    assert "\n" not in str(error.value)


def test_periods_may_be_written_with_pi(schema, tmp_path):
    schema.write_text(SCHEMA.replace("period: 360", "period: 2pi"))
    source = open_tables([str(write(tmp_path, "flat-parquet"))], schema)
    assert source.schema.column("phi").period == pytest.approx(2 * np.pi)


def test_the_largest_event_number(schema, tmp_path):
    file = tmp_path / "t.parquet"
    TABLE.assign(event=2**63 - 1).to_parquet(file, index=False)
    (cloud,) = clouds_of(open_tables([str(file)], schema))
    assert (cloud.event_id, cloud.n_points) == (2**63 - 1, len(TABLE))


@pytest.mark.parametrize("n_lost", [1, 2, 9])
def test_a_text_whose_last_line_has_no_end_may_be_cut(schema, tmp_path, n_lost):
    path = write(tmp_path, "csv")
    path.write_bytes(path.read_bytes()[:-n_lost])
    with pytest.raises(InputError, match=r"t.csv: found a last line without a line end .*last number too"):
        hepdata.build_table(path, tmp_path / "d", schema=schema)
    assert not (tmp_path / "d").exists()


def test_files_that_are_no_tables_are_one_line(schema, tmp_path):
    for name, content, message in [
        ("a.parquet", b"PAR1 no", "a part that cannot be read"),
        ("a.root", b"root", "a part that cannot be read"),
        ("a.h5", b"no", "a part that cannot be read"),
        ("a.csv", b"event,id\n1\n", "a part that cannot be read"),
        ("a.csv", b"", "a header without a name"),
        ("a.txt", b"", r"a file called a.txt; expected tables of points \(.parquet"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message) as error:
            open_tables([str(tmp_path / name)], schema)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="found no file"):
        open_tables([str(tmp_path / "none.csv")], schema)
    with pytest.raises(InputError, match="the same file twice"):
        open_tables([str(write(tmp_path, "csv"))] * 2, schema)
    with pytest.raises(InputError, match="files of 2 formats"):
        open_tables([str(write(tmp_path, kind)) for kind in ("csv", "flat-root")], schema)
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["a/event"], file["b/event"] = [1], [2]
    with pytest.raises(InputError, match=r"found 2 tables \(a, b\); expected one; name it as `tree`"):
        open_tables([str(tmp_path / "two.h5")], schema)
    schema.write_text("tree: c\n" + SCHEMA)
    with pytest.raises(InputError, match="found no table 'c'"):
        open_tables([str(tmp_path / "two.h5")], schema)
