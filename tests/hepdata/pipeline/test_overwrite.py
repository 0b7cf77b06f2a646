"""`overwrite`: the old dataset survives every failure and every kill, and nobody else's files are removed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hepdata.errors import InputError, JobError
from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.event_range import EventRange
from hepdata.pipeline.staging import staging_of
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, open_tracking
from hepdata.storage.atomic import exchange
from hepdata.storage.dataset import replace
from hepdata.storage.dataset.replace import replaced_of

SIXTY = TRACKING_PRESETS["tracking-60k"]
SCRIPT = Path(__file__).with_name("killed_build.py")


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def other_source(trackml_events):
    """Two of the events: another build than that of all."""
    return open_tracking(trackml_events, SIXTY, events=EventRange(most=2))


@pytest.fixture
def old(tmp_path, other_source):
    """A dataset that is to be replaced, and its content."""
    out = tmp_path / "place" / "dataset"
    build_dataset(other_source, out)
    return out, content(out)


def test_a_dataset_is_replaced(old, tracking_source, same_bytes):
    out, _ = old
    build_dataset(tracking_source, out, overwrite=True)
    same_bytes(out)


def test_bad_input_leaves_the_old_dataset(old, trackml_copy, edit_csv):
    out, before = old
    edit_csv(trackml_copy / "event000001003-hits.csv", lambda table: table.assign(x=float("nan")))
    with pytest.raises(InputError, match="event000001003-hits"):
        build_dataset(open_tracking(trackml_copy, SIXTY), out, overwrite=True)
    assert content(out) == before


@pytest.mark.parametrize("name", ["NOTES.txt", "plots/eta.png", ".git/config"])
def test_files_of_the_user_in_the_dataset_are_kept(old, tracking_source, name):
    out, before = old
    path = out / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("my own")
    with pytest.raises(InputError, match=rf"'{name.split('/')[0]}', which is not a file of the dataset"):
        build_dataset(tracking_source, out, overwrite=True)
    assert path.read_text() == "my own"
    assert {name: (out / name).read_bytes() for name in before} == before


def test_files_that_come_while_the_new_dataset_is_made_are_kept(old, tracking_source, listen, same_bytes):
    out, before = old

    class Writer(listen):
        def advance(self, steps=1, note=""):
            (out / "NOTES.txt").write_text("my own")

    with pytest.raises(InputError, match=r"'NOTES.txt', which is not a file of the dataset"):
        build_dataset(tracking_source, out, overwrite=True, progress=Writer())
    assert content(out) == {**before, "NOTES.txt": b"my own"}
    (out / "NOTES.txt").unlink()
    assert build_dataset(tracking_source, out, overwrite=True).n_resumed == 6
    same_bytes(out)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "name", ["results.json", "my.parquet", "train-00000-of-00001.parquet", ".hidden", "plots/eta.png", "a.h5"]
)
def test_a_foreign_folder_with_the_name_of_the_staging_folder_is_kept(
    tracking_source, tmp_path, overwrite, name
):
    path = staging_of(tmp_path / "dataset") / name
    path.parent.mkdir(parents=True)
    path.write_text("my own")
    with pytest.raises(InputError, match=rf"dataset\.partial: found '{name.split('/')[0]}'"):
        build_dataset(tracking_source, tmp_path / "dataset", overwrite=overwrite)
    assert path.read_text() == "my own"


def test_a_foreign_link_with_the_name_of_the_staging_folder_is_kept(tracking_source, tmp_path):
    (tmp_path / "mine").mkdir()
    staging_of(tmp_path / "dataset").symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match=r"dataset\.partial: found something that is not a folder"):
        build_dataset(tracking_source, tmp_path / "dataset")
    assert staging_of(tmp_path / "dataset").is_symlink()


def test_a_failed_rename_puts_the_old_dataset_back(old, tracking_source, monkeypatch, same_bytes):
    out, before = old
    rename = Path.rename

    def refuse(self, target):
        if self == staging_of(out):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with pytest.raises(JobError, match="Input/output error"):
            build_dataset(tracking_source, out, overwrite=True)
    assert content(out) == before
    build_dataset(tracking_source, out, overwrite=True)
    same_bytes(out)


def test_there_is_a_dataset_at_every_moment(old, tracking_source, monkeypatch, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    if not exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("this file system cannot exchange two names")
    out, _ = old
    rename, seen = Path.rename, []

    def watch(self, target):
        done = rename(self, target)
        seen.append((out / "dataset.json").is_file())
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", watch)
        build_dataset(tracking_source, out, overwrite=True)
    assert seen
    assert all(seen)


def test_without_an_exchange_a_dataset_is_replaced_too(old, tracking_source, monkeypatch, same_bytes):
    monkeypatch.setattr(replace, "exchange", lambda first, second: False)
    build_dataset(tracking_source, old[0], overwrite=True)
    same_bytes(old[0])
    assert [path.name for path in old[0].parent.iterdir()] == [old[0].name]


def test_what_was_killed_before_the_exchange_is_made_again(old, tracking_source, same_bytes):
    out, before = old
    build_dataset(tracking_source, out.with_name("new"))
    out.with_name("new").rename(replaced_of(out))
    assert content(out) == before
    build_dataset(tracking_source, out, overwrite=True)
    same_bytes(out)
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_a_swap_that_was_killed_is_undone_by_a_run_without_overwrite(old, tracking_source):
    out, before = old
    out.rename(replaced_of(out))
    with pytest.raises(InputError, match="built from other files or with another configuration"):
        build_dataset(tracking_source, out)
    assert content(out) == before
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_what_a_killed_swap_has_left_is_removed(old, tracking_source, same_bytes, tmp_path):
    out, _ = old
    out.rename(replaced_of(out))
    build_dataset(tracking_source, tmp_path / "new" / "dataset")
    (tmp_path / "new" / "dataset").rename(out)
    assert build_dataset(tracking_source, out).was_finished
    same_bytes(out)


def run(raw, out, when):
    command = [sys.executable, str(SCRIPT), str(raw), str(out), "1", when, "--overwrite"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)


def check_killed_replacement(raw, make_old, folder, step, new):
    """Kill a replacement before one of its steps: the old or the new dataset is whole; a rerun finishes."""
    out = folder / "dataset"
    build_dataset(make_old, out)
    before = content(out)
    if run(raw, out, f"step:{step}").returncode != -signal.SIGKILL:
        return False
    places = [path for path in (out, replaced_of(out)) if path.is_dir()]
    assert (
        any(before.items() <= content(path).items() for path in places) or new.items() <= content(out).items()
    )
    result = run(raw, out, "never")
    assert result.returncode == 0, result.stderr
    assert content(out) == new
    assert [path.name for path in folder.iterdir()] == ["dataset"]
    return True


@pytest.fixture(scope="module")
def new(trackml_events, tmp_path_factory):
    """What the replacement leaves, and its number of steps."""
    folder = tmp_path_factory.mktemp("new")
    build_dataset(open_tracking(trackml_events, SIXTY, events=EventRange(most=2)), folder / "dataset")
    result = run(trackml_events, folder / "dataset", "never")
    assert result.returncode == 0, result.stderr
    return content(folder / "dataset"), int(result.stdout)


@pytest.mark.parametrize("from_end", [2, 5, 9])
def test_killed_while_one_takes_the_place_of_the_other(trackml_events, other_source, tmp_path, new, from_end):
    files, n_steps = new
    assert check_killed_replacement(trackml_events, other_source, tmp_path, n_steps - from_end, files)


@pytest.mark.slow
def test_killed_at_every_step_of_a_replacement(trackml_events, other_source, tmp_path, new):
    files, n_steps = new
    for step in range(1, n_steps + 1):
        (tmp_path / str(step)).mkdir()
        assert check_killed_replacement(trackml_events, other_source, tmp_path / str(step), step, files)
