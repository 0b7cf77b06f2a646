import math
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import hept
from hepdata.errors import InputError, JobError
from hepdata.loader.dataset import open_dataset
from hepdata.schema import TRACKING
from hept.evaluation.evaluator import evaluate
from hept.model.weights import load_model
from hept.runs.folder import BEST, LAST, RunFolder
from hept.training import loop
from hept.training.saved_state import read_state
from hept.training.trainer import fit


def losses(run):
    return [row["loss"] for row in RunFolder(run).read_rows("steps")]


@pytest.mark.parametrize(("task", "metric"), [("tracking", "ap@0.9"), ("pileup", "auc")])
def test_training_beats_the_untrained_model_on_unseen_clouds(request, small_config, tmp_path, task, metric):
    dataset = request.getfixturevalue(f"{task}_dataset")
    untrained = fit(small_config(f"{task}-demo", "epochs=1", "optimizer.lr=1e-9"), dataset, tmp_path / "no")
    trained = fit(small_config(f"{task}-demo", "epochs=15"), dataset, tmp_path / "yes")
    before, after = evaluate(untrained.run, dataset), evaluate(trained.run, dataset)
    assert trained.stopped == "finished"
    assert after[metric] > before[metric] + 0.2
    assert after["loss"] < before["loss"]


def test_the_run_folder_tells_everything(tracking_dataset, small_config, tmp_path):
    config = small_config("tracking-demo", "ema_decay=0.9")
    result = fit(config, tracking_dataset, tmp_path / "run")
    folder = RunFolder(result.run)
    assert folder.read_config() == config
    description = folder.read_description()
    assert description["seed"] == config.seed
    assert {"fingerprint", "versions", "command", "features", "clouds"} <= set(description)
    assert [row["epoch"] for row in folder.read_rows("metrics")] == ["1", "2"]
    assert len(folder.read_rows("steps")) == result.steps == 8
    assert {BEST, LAST, "resume.pt", "tensorboard"} <= {path.name for path in result.run.iterdir()}
    assert not list(result.run.glob(".*"))
    best = max(float(row["valid_ap@0.9"]) for row in folder.read_rows("metrics"))
    assert result.best == best


def test_same_seed_same_losses_and_another_seed_others(tracking_dataset, small_config, tmp_path):
    runs = [
        fit(small_config("tracking-demo", f"seed={seed}"), tracking_dataset, tmp_path / name).run
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert losses(runs[0]) == losses(runs[1])
    assert losses(runs[0]) != losses(runs[2])


def test_the_largest_seed_trains(tracking_dataset, small_config, tmp_path):
    config = small_config("tracking-demo", f"seed={2**63 - 1}", "epochs=1")
    assert fit(config, tracking_dataset, tmp_path / "run").steps == 4


def test_accumulated_batches_are_one_batch(tracking_dataset, small_config, tmp_path):
    # Without dropout and random negatives, whose draws would differ.
    changes = ("model.dropout=0", "loss.random_negatives=0", "precision=64-true")
    one = fit(small_config("tracking-demo", "batch_size=4", *changes), tracking_dataset, tmp_path / "one").run
    two = fit(small_config("tracking-demo", "accumulate=4", *changes), tracking_dataset, tmp_path / "two").run
    assert np.array(losses(two), float) == pytest.approx(np.array(losses(one), float), rel=1e-6)


def test_batches_by_points_train_to_the_same_mean(tracking_dataset, small_config, tmp_path):
    # All clouds have 170 points: two of them fit, in one batch or in two.
    changes = ("model.dropout=0", "loss.random_negatives=0", "precision=64-true", "epochs=1")
    by_points = small_config("tracking-demo", "batch_points=340", *changes)
    by_number = small_config("tracking-demo", "batch_size=2", *changes)
    accumulated = small_config("tracking-demo", "batch_points=200", "accumulate=2", *changes)
    runs = [
        fit(config, tracking_dataset, tmp_path / str(i)).run
        for i, config in enumerate((by_points, by_number, accumulated))
    ]
    assert len(losses(runs[0])) == 2
    assert losses(runs[0]) == losses(runs[1])
    assert np.array(losses(runs[2]), float) == pytest.approx(np.array(losses(runs[0]), float), rel=1e-6)


KILLED = """
import os, signal, sys
from pathlib import Path
from hept.settings.load import load_config
from hept.training import trainer
dataset, out, kill_at, *changes = sys.argv[1:]
step = trainer.Training._step
def and_die(self, *arguments):
    if self.state.position.step == int(kill_at):
        os.kill(os.getpid(), signal.SIGKILL)
    step(self, *arguments)
trainer.Training._step = and_die
trainer.fit(load_config("tracking-demo", changes), dataset, Path(out))
"""


@pytest.mark.parametrize(("kill_at", "kind"), [(1, "adam"), (5, "muon")])
def test_killed_and_resumed_is_undisturbed(tracking_dataset, small_config, tmp_path, kill_at, kind):
    if kind == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("needs torch 2.9")
    changes = ["epochs=2", "ema_decay=0.9", "save_every_steps=3", "optimizer.schedule=plateau"]
    changes += [f"optimizer.kind={kind}", "loss.negatives=both"]
    config = small_config("tracking-demo", *changes)
    whole = fit(config, tracking_dataset, tmp_path / "whole")
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml())
    code = KILLED.replace('load_config("tracking-demo", changes)', f'load_config("{path}")')
    out = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", code, tracking_dataset, out, str(kill_at)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(losses(out)) == kill_at
    resumed = fit(config, tracking_dataset, out, resume=True)
    assert losses(resumed.run) == losses(whole.run)
    assert (resumed.best, resumed.best_epoch) == (whole.best, whole.best_epoch)
    for name in (BEST, LAST):
        a, b = load_file(whole.run / name), load_file(resumed.run / name)
        assert all(torch.equal(a[key], b[key]) for key in a)
    columns = [name for name in RunFolder(out).read_rows("metrics")[0] if "loss" in name or "ap" in name]
    tables = [RunFolder(run).read_rows("metrics") for run in (whole.run, resumed.run)]
    assert [[row[c] for c in columns] for row in tables[0]] == [
        [row[c] for c in columns] for row in tables[1]
    ]


class InterruptAfter:
    """A progress listener that presses Ctrl-C after some steps."""

    def __init__(self, n_steps):
        self.left = n_steps

    def start(self, description, total, unit, *, done=0):
        pass

    def advance(self, steps=1, note=""):
        self.left -= steps
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)

    def announce(self, line):
        pass

    def finish(self):
        pass


def test_ctrl_c_finishes_the_step_and_saves(tracking_dataset, small_config, tmp_path):
    config = small_config()
    whole = fit(config, tracking_dataset, tmp_path / "whole")
    stopped = fit(config, tracking_dataset, tmp_path / "stopped", progress=InterruptAfter(3))
    assert stopped.stopped == "interrupted"
    assert (stopped.steps, len(losses(stopped.run))) == (3, 3)
    assert read_state(stopped.run / "resume.pt")["position"]["step"] == 3
    resumed = fit(config, tracking_dataset, tmp_path / "stopped", resume=True)
    assert losses(resumed.run) == losses(whole.run)


def test_a_resumed_run_has_the_threads_that_it_began_with(
    tracking_dataset, small_config, tmp_path, monkeypatch
):
    # Long sums differ in their last digits between one thread and several.
    config, out = small_config("tracking-demo", "batch_size=4"), tmp_path / "stopped"
    before = torch.get_num_threads()
    whole = fit(config, tracking_dataset, tmp_path / "whole", threads=3)
    fit(config, tracking_dataset, out, threads=3, progress=InterruptAfter(1))
    assert torch.get_num_threads() == before
    monkeypatch.setenv("HEPT_THREADS", "1")
    resumed = fit(config, tracking_dataset, out, resume=True)
    assert resumed.threads == RunFolder(out).read_threads() == 3
    assert losses(resumed.run) == losses(whole.run)


def test_a_resumed_run_takes_other_threads_when_told_to(tracking_dataset, small_config, tmp_path):
    out = tmp_path / "run"
    fit(small_config(), tracking_dataset, out, threads=1, progress=InterruptAfter(1))
    assert fit(small_config(), tracking_dataset, out, resume=True, threads=2).threads == 2
    assert RunFolder(out).read_threads() == 2


def test_nan_stops_with_step_cloud_and_last_good_checkpoint(make_dataset, small_config, tmp_path):
    def spoil(cloud):
        if cloud.event_id == 3:
            cloud.columns["r"][5] = np.nan
        return cloud

    dataset = make_dataset(change=spoil)
    config = small_config("tracking-demo", "save_every_steps=1", "data.features=null")
    with pytest.raises(
        JobError, match=r"step \d+: found a loss of nan on event 3 sector 0.*lower optimizer.lr"
    ):
        fit(config, dataset, tmp_path / "run")


def test_exploding_loss_stops(tracking_dataset, small_config, tmp_path):
    with pytest.raises(JobError, match=r"finite loss below 0.001; the last good checkpoint is .* \(step 0\)"):
        fit(small_config("tracking-demo", "max_loss=0.001"), tracking_dataset, tmp_path / "run")


def test_early_stopping_and_time_limit(tracking_dataset, small_config, tmp_path):
    frozen = ("epochs=9", "optimizer.lr=1e-12", "optimizer.clip_norm=1e-9")
    result = fit(small_config("tracking-demo", *frozen, "early_stopping=2"), tracking_dataset, tmp_path / "a")
    assert (result.stopped, result.epochs) == ("early stopping", 3)
    result = fit(small_config("tracking-demo", "max_minutes=1e-6"), tracking_dataset, tmp_path / "b")
    assert (result.stopped, result.epochs, result.steps) == ("time limit", 1, 1)
    assert RunFolder(result.run).read_rows("metrics")
    again = fit(
        small_config("tracking-demo", "max_minutes=1e-6"), tracking_dataset, tmp_path / "b", resume=True
    )
    assert (again.stopped, again.steps) == ("time limit", 1)


def test_a_run_at_its_time_limit_is_validated(tracking_dataset, small_config, tmp_path):
    config = small_config("tracking-demo", "epochs=50", "validate_every=50", "max_minutes=0.0001")
    result = fit(config, tracking_dataset, tmp_path / "run")
    assert (result.stopped, result.best_epoch) == ("time limit", 1)
    assert result.best is not None


def test_an_undefined_figure_is_never_the_best(tracking_dataset, small_config, tmp_path, monkeypatch):
    figures = iter([math.nan, 0.5, 0.4])
    monkeypatch.setattr(loop, "score_split", lambda *_, **__: {"ap@0.9": next(figures)})
    result = fit(small_config("tracking-demo", "epochs=3"), tracking_dataset, tmp_path / "run")
    assert (result.best, result.best_epoch) == (0.5, 2)


def test_mined_pairs_need_no_lists_and_give_the_same_particles(
    make_dataset, tracking_dataset, small_config, tmp_path
):
    bare = make_dataset(change=lambda cloud: replace(cloud, positives=None, negatives=None))
    config = small_config("tracking-demo", "loss.negatives=mined", "loss.mining_window=60")
    runs = [
        fit(config, dataset, tmp_path / name).run for name, dataset in (("a", bare), ("b", tracking_dataset))
    ]
    assert losses(runs[0]) == losses(runs[1])
    both = fit(small_config("tracking-demo", "loss.negatives=both"), tracking_dataset, tmp_path / "both").run
    # With further negatives the same network has a larger loss.
    assert float(losses(both)[0]) > float(losses(runs[1])[0])


def test_normalised_embeddings_have_length_one(tracking_dataset, small_config, tmp_path):
    config = small_config("tracking-demo", "model.normalise=true", "epochs=1")
    run = fit(config, tracking_dataset, tmp_path / "run").run
    out = load_model(run)(open_dataset(tracking_dataset)["valid"][0])
    torch.testing.assert_close(out.norm(dim=1), torch.ones(len(out)))


def test_saved_weights_are_those_of_the_average(tracking_dataset, small_config, tmp_path):
    changes = ("epochs=1", "ema_decay=0.999999")
    result = fit(small_config("tracking-demo", *changes), tracking_dataset, tmp_path / "run")
    state = read_state(result.run / "resume.pt")
    saved = load_file(result.run / LAST)
    name = "body.encoder.0.weight"
    assert not torch.equal(saved[name], state["network"][name])
    assert torch.equal(saved[name], state["average"][name])


def test_activation_checkpointing_changes_memory_not_losses(tracking_dataset, small_config, tmp_path):
    plain = fit(small_config(), tracking_dataset, tmp_path / "plain").run
    sparing = fit(
        small_config("tracking-demo", "checkpoint_activations=true"), tracking_dataset, tmp_path / "sparing"
    ).run
    assert losses(plain) == losses(sparing)
    assert load_model(sparing).task == "tracking"


def test_training_starts_from_other_weights_and_their_network(
    make_dataset, tracking_dataset, small_config, tmp_path
):
    first = fit(
        small_config("tracking-demo", "model.hidden_dim=10"), tracking_dataset, tmp_path / "first"
    ).run
    other = make_dataset(change=lambda cloud: replace(cloud, event_id=cloud.event_id + 50))
    settings = {"epochs": 1, "optimizer.lr": 1e-12}
    run = hept.fit(other, tmp_path / "second", preset="tracking-laptop", settings=settings, init=first)
    assert run.config.model.hidden_dim == 10
    assert RunFolder(run.path).read_description()["init"] == str(first / BEST)
    cloud = open_dataset(other)["valid"][0]
    torch.testing.assert_close(load_model(run)(cloud), load_model(first)(cloud), rtol=1e-4, atol=1e-6)
    # What any weights can be used with is not of the weights.
    wider = hept.fit(other, tmp_path / "third", settings={**settings, "model.block_size": 32}, init=first)
    assert (wider.config.model.block_size, wider.config.model.hidden_dim) == (32, 10)
    # The same call again goes on with the run.
    again = hept.fit(other, tmp_path / "second", preset="tracking-laptop", settings=settings, init=first)
    assert again.result.steps == run.result.steps


@pytest.mark.parametrize(
    ("preset", "settings", "message"),
    [
        ("tracking-demo", {"model.n_layers": 2}, "setting model.n_layers: found a setting of the network"),
        ("pileup-demo", {}, "found weights for tracking; expected weights for pileup"),
    ],
)
def test_weights_that_do_not_fit_are_one_line(
    tracking_dataset, small_config, tmp_path, preset, settings, message
):
    first = fit(small_config("tracking-demo", "epochs=1"), tracking_dataset, tmp_path / "first").run
    with pytest.raises(InputError, match=message):
        hept.fit(tracking_dataset, tmp_path / "second", preset=preset, settings=settings, init=first)
    assert not (tmp_path / "second").exists()


def test_bf16_trains(tracking_dataset, small_config, tmp_path):
    result = fit(small_config("tracking-demo", "precision=bf16-mixed"), tracking_dataset, tmp_path / "run")
    assert all(np.isfinite(float(loss)) for loss in losses(result.run))


@pytest.mark.parametrize(
    ("task", "made", "message"),
    [
        ("pileup", {}, "found a tracking dataset; expected a pileup dataset for this preset"),
        ("tracking", {"splits": {"train": 2, "valid": 0, "test": 1}}, "split 'valid': found no clouds"),
        ("tracking", {"without": "pairs"}, "found no pair lists"),
        ("tracking", {"without": "particle_id"}, "found no column 'particle_id'"),
    ],
)
def test_datasets_that_do_not_fit_are_one_line(make_dataset, small_config, tmp_path, task, made, message):
    missing = made.get("without")
    options = {"splits": made.get("splits")}
    if missing == "pairs":
        options["change"] = lambda cloud: replace(cloud, positives=None, negatives=None)
    elif missing:
        options["schema"] = TRACKING.without(frozenset({missing}))
        options["change"] = lambda cloud: replace(
            cloud, columns={k: v for k, v in cloud.columns.items() if k != missing}
        )
    dataset = make_dataset("tracking", **options)
    with pytest.raises(InputError, match=message):
        fit(small_config(f"{task}-demo"), dataset, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unknown_input_is_one_line(pileup_dataset, small_config, tmp_path):
    config = small_config("pileup-demo", "data.features=[{column: enrgy, compression: log}]")
    with pytest.raises(InputError, match=r"data.features, column 'enrgy': found no such.*mean 'energy'"):
        fit(config, pileup_dataset, tmp_path / "run")


def test_what_cannot_be_standardised_is_one_line(make_dataset, small_config, tmp_path):
    def spoil(cloud):
        cloud.columns["r"][5] = np.inf
        return cloud

    with pytest.raises(InputError, match=r"column 'r': found values that are NaN or infinite"):
        fit(small_config(), make_dataset(change=spoil), tmp_path / "run")


def test_a_run_is_not_overwritten_and_not_resumed_with_other_data(
    tracking_dataset, make_dataset, small_config, tmp_path
):
    fit(small_config("tracking-demo", "epochs=1"), tracking_dataset, tmp_path / "run")
    with pytest.raises(InputError, match=r"found a run with other settings \(epochs = 1, not 2\); expected"):
        fit(small_config(), tracking_dataset, tmp_path / "run")
    other = make_dataset(splits={"train": 1, "valid": 1, "test": 1})
    for resume in (False, True):
        with pytest.raises(InputError, match=r"expected the dataset with which the run started"):
            fit(small_config("tracking-demo", "epochs=1"), other, tmp_path / "run", resume=resume)


def test_no_space_for_checkpoints_is_one_line(tracking_dataset, small_config, tmp_path):
    # /dev/full refuses every byte, as a full disk does.
    run = tmp_path / "run"
    run.mkdir()
    (run / f".{LAST}.tmp").symlink_to("/dev/full")
    with pytest.raises(JobError, match=r"found no space left on the disk"):
        fit(small_config("tracking-demo", "epochs=1"), tracking_dataset, run)


def test_nothing_to_resume_is_one_line(tracking_dataset, small_config, tmp_path):
    with pytest.raises(InputError, match=r"nothing: found no resume.pt; expected a run folder with a saved"):
        fit(small_config(), tracking_dataset, tmp_path / "nothing", resume=True)
    run = fit(small_config("tracking-demo", "epochs=1"), tracking_dataset, tmp_path / "run").run
    for state in run.glob("resume*"):
        state.unlink()
    with pytest.raises(InputError, match=r"found no resume.pt; expected a run folder with a saved state"):
        fit(small_config(), tracking_dataset, run, resume=True)


@pytest.mark.slow
def test_a_compiled_model_trains_to_the_same_losses(tracking_dataset, small_config, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    changes = ("model.dropout=0", "epochs=1")
    plain = fit(small_config("tracking-demo", *changes), tracking_dataset, tmp_path / "plain").run
    compiled = fit(
        small_config("tracking-demo", *changes, "compile=true"), tracking_dataset, tmp_path / "fast"
    ).run
    assert np.array(losses(compiled), float) == pytest.approx(np.array(losses(plain), float), rel=1e-3)
