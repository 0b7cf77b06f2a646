import json
from pathlib import Path

import pytest

import hept
from hepdata.errors import InputError, JobError
from hept.runs.run import Run
from hept.training.result import FitResult
from hept.training.tune import Range, parse_search, tune

pytest.importorskip("optuna", reason="needs pip install 'hept[tune]'")
SMALL = {"model.n_layers": 1, "model.hidden_dim": 8, "model.n_heads": 2, "model.head_width": 16, "epochs": 1}
SEARCH = parse_search({"optimizer.lr": "1e-4:1e-1:log", "model.n_tables": "1:8"})


def train_by(score, seen=None):
    """A training whose result is a function of the settings."""

    def train(settings, folder: Path):
        if seen is not None:
            seen.append((folder.name, settings))
        value = score(settings)
        return Run(folder, FitResult(folder, "ap", value, 1, 1, 1, 0.0, "finished", 1))

    return train


def closeness(settings):
    return -abs(settings["model.n_tables"] - 6)


def search_to(trials, out, train, lines=None):
    return tune(train, out, SEARCH, trials=trials, seed=1, announce=(lines or []).append)


def test_a_search_finds_what_is_best_in_the_range(tmp_path):
    found = search_to(25, tmp_path, train_by(closeness))
    assert len(found) == 25
    assert found[0].settings["model.n_tables"] == 6
    assert [trial.value for trial in found] == sorted((trial.value for trial in found), reverse=True)
    for trial in found:
        assert 1 <= trial.settings["model.n_tables"] <= 8
        assert 1e-4 <= trial.settings["optimizer.lr"] <= 1e-1


def test_a_killed_search_repeats_the_unfinished_trial_in_its_folder(tmp_path):
    class Killed(BaseException):
        pass

    seen = []

    def die(settings):
        if len(seen) == 3:
            raise Killed
        return closeness(settings)

    with pytest.raises(Killed):
        search_to(5, tmp_path, train_by(die, seen))
    later = []
    found = search_to(5, tmp_path, train_by(closeness, later))
    assert len(found) == 5
    assert later[0] == seen[2]
    assert len(later) == 3
    assert len({trial.run for trial in found}) == 5


DAMAGE = {
    "text": lambda whole: b"garbage\n",
    "bytes": lambda whole: b"\xff\x00" * 50 + b"\n",
    "hole": lambda whole: whole[:100] + whole[150:],
    "operation": lambda whole: b'{"op_code": 99}\n',
    "list": lambda whole: b"[]\n",
    "deep": lambda whole: b"[" * 100_000 + b"\n",
    "outside": lambda whole: whole.replace(b"trial-000", b"../../evil"),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_or_hostile_journal_is_one_line(tmp_path, change):
    search_to(1, tmp_path, train_by(closeness))
    journal = tmp_path / "study.journal"
    journal.write_bytes(change(journal.read_bytes()))
    with pytest.raises(InputError, match=r"study.journal: found (an unreadable file|a run called)") as error:
        search_to(2, tmp_path, train_by(closeness))
    assert len(str(error.value).splitlines()) == 1


def test_what_a_killed_process_left_in_the_journal_is_removed(tmp_path):
    search_to(1, tmp_path, train_by(closeness))
    journal = tmp_path / "study.journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code": 5, "worker')
    # Optuna waits for the owner of its lock, here half a minute.
    (tmp_path / "study.journal.lock").symlink_to(journal)
    assert len(search_to(2, tmp_path, train_by(closeness))) == 2
    assert journal.read_bytes().startswith(whole)


def test_one_folder_has_one_search(tmp_path):
    def meet(settings):
        with pytest.raises(InputError, match="found another process that is writing it"):
            search_to(1, tmp_path, train_by(closeness))
        return closeness(settings)

    assert len(search_to(1, tmp_path, train_by(meet))) == 1


def test_a_file_in_place_of_the_folder_is_one_line(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(JobError, match="out: found the error File exists"):
        search_to(1, tmp_path / "out", train_by(closeness))


def test_more_trials_are_added_to_a_finished_search(tmp_path):
    first = search_to(3, tmp_path, train_by(closeness))
    seen = []
    more = search_to(4, tmp_path, train_by(closeness, seen))
    assert len(seen) == 1
    assert {t.number for t in first} < {t.number for t in more}


def test_a_diverged_training_is_the_worst_trial(tmp_path):
    def diverge(settings):
        raise JobError("run", found="loss nan", expected="a finite loss", remedy="lower lr")

    found = search_to(2, tmp_path, train_by(diverge))
    assert [trial.value for trial in found] == [float("-inf")] * 2


def test_another_search_in_the_same_folder_is_refused(tmp_path):
    search_to(1, tmp_path, train_by(closeness))
    with pytest.raises(InputError, match="a search of other settings"):
        tune(train_by(closeness), tmp_path, {"epochs": [1, 2]}, trials=1, seed=1, announce=print)


@pytest.mark.parametrize(
    ("name", "text", "space"),
    [
        ("optimizer.lr", "1e-4:1e-2:log", Range(1e-4, 1e-2, "log")),
        ("model.n_tables", "1:4", Range(1, 4)),
        ("model.n_tables", "1,2,4", [1, 2, 4]),
        ("optimizer.schedule", "cosine,constant", ["cosine", "constant"]),
        ("optimizer.clip_norm", [None, 1.0], [None, 1.0]),
    ],
)
def test_ranges_and_choices_are_read(name, text, space):
    assert parse_search({name: text}) == {name: space}


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({}, "found nothing"),
        (["ema_decay"], "ema_decay: found no '='"),
        ("lr=1:2", "lr: found no such setting"),
        ({"lr": "1:2"}, "no such setting.*did you mean"),
        ({"optimizer.lr": "2:1"}, "found 2:1"),
        ({"optimizer.lr": "0:1:log"}, "LOW above 0"),
        ({"optimizer.lr": "a:b"}, "found a:b"),
        ({"optimizer.lr": "1:2:exp"}, "found 1:2:exp"),
        ({"optimizer.lr": [[1]]}, r"found \[\[1\]\]"),
    ],
)
def test_bad_searches_are_one_line(search, message):
    with pytest.raises(InputError, match=message):
        parse_search(search)


def test_trials_are_runs(tracking_dataset, tmp_path):
    search = ["optimizer.lr=1e-3:1e-2:log"]
    options = {"trials": 2, "preset": "tracking-demo", "settings": SMALL, "threads": 1}
    found = hept.tune(tracking_dataset, tmp_path / "study", search, **options)
    for trial in found:
        run = hept.open_run(trial.run)
        assert run.config.optimizer.lr == trial.settings["optimizer.lr"]
        assert run.config.model.hidden_dim == 8
        assert run.history()["valid_ap@0.9"].max() == pytest.approx(trial.value)
    assert json.loads((tmp_path / "study" / "study.journal").read_text().splitlines()[0])
