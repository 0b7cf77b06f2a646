"""Flipped bytes in weights, states and the authors' file: refused in one line, never loaded with changes."""

import shutil

import numpy as np
import pytest
import torch

from hepdata.errors import InputError
from hept import load_published
from hept.model.weights import load_model
from hept.paper import literal_model
from hept.training.saved_state import load_newest, read_state, save_state, write_state
from hept.training.trainer import fit


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tracking_dataset):
    from hept.settings.load import load_config

    small = ["model.n_layers=1", "model.hidden_dim=4", "model.n_heads=2", "model.n_regions=9", "epochs=2"]
    return fit(
        load_config("tracking-demo", small), tracking_dataset, tmp_path_factory.mktemp("run") / "r"
    ).run


def flip_bytes(path, n_flips, read, is_same, *, seed=0):
    """Flip one byte at a time; return how many flips `read` refused, and how many gave the same content.

    Every other flip is in the first 4 kB, where headers are.
    """
    whole = path.read_bytes()
    before = read(path)
    random = np.random.default_rng(seed)
    n_refused = n_same = 0
    for i in range(n_flips):
        damaged = bytearray(whole)
        damaged[random.integers(len(whole) if i % 2 else min(len(whole), 4096))] ^= int(
            random.integers(1, 256)
        )
        path.write_bytes(damaged)
        try:
            after = read(path)
        except InputError as error:
            n_refused += len(str(error).splitlines()) == 1
        else:
            assert is_same(before, after), "a damaged file was loaded with other content"
            n_same += 1
    path.write_bytes(whole)
    return n_refused, n_same


def same_models(a, b):
    ours, theirs = a.network.state_dict(), b.network.state_dict()
    is_same = ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    return is_same and (a.features, a.coords, a.config) == (b.features, b.coords, b.config)


def test_no_flipped_byte_changes_weights_silently(trained, tmp_path):
    path = shutil.copy(trained / "best.safetensors", tmp_path / "best.safetensors")
    n_refused, _ = flip_bytes(path, 400, load_model, same_models)
    assert n_refused > 390


def test_no_flipped_byte_changes_a_state_silently(tmp_path):
    path = tmp_path / "resume.pt"
    write_state(path, {"position": {"step": 3}, "network": {"w": torch.arange(500.0)}})
    n_refused, _ = flip_bytes(path, 300, read_state, lambda a, b: False)
    assert n_refused == 300


@pytest.mark.parametrize("is_zip", [True, False])
def test_damaged_files_of_the_authors_layout_are_one_line(tmp_path, is_zip):
    state = {name: tensor.clone() for name, tensor in literal_model.draw_state().items()}
    path = tmp_path / "model.pt"
    torch.save(state, path, _use_new_zipfile_serialization=is_zip)
    # The old format has no checksums: its numbers may change.
    n_refused, _ = flip_bytes(path, 150, load_published, same_networks if is_zip else lambda a, b: True)
    assert n_refused > 30


def same_networks(a, b):
    ours, theirs = a.state_dict(), b.state_dict()
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("is_zip", [True, False])
def test_damaged_pickles_are_one_line(tmp_path, is_zip):
    """A small file, mostly of pickle opcodes; every byte is damaged in turn."""
    path = tmp_path / "small.pt"
    torch.save({"regions": torch.ones(2), "n": [1, 2.5, "x"]}, path, _use_new_zipfile_serialization=is_zip)
    whole = path.read_bytes()
    for i in range(len(whole)):
        damaged = bytearray(whole)
        damaged[i] ^= 0x55
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"small.pt: found .*; expected the authors' checkpoint"):
            load_published(path)


def test_a_damaged_checkpoint_names_the_next_good_one(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    best, last = run / "best.safetensors", run / "last.safetensors"
    damaged = bytearray(best.read_bytes())
    damaged[-3] ^= 1
    best.write_bytes(damaged)
    with pytest.raises(
        InputError, match=rf"best.safetensors: found a damaged.*checksum.*use {last}, which is"
    ):
        load_model(run)
    assert load_model(last).task == "tracking"
    last.write_bytes(damaged)
    with pytest.raises(InputError, match=r"its checksum does not match.*use a copy, or train again"):
        load_model(run)


def test_weights_of_the_version_before_have_no_checksum_and_are_read(trained, tmp_path):
    import json

    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    with safe_open(trained / "best.safetensors", "pt") as file:
        card = json.loads(file.metadata()["hept"])
    tensors = load_file(trained / "best.safetensors")
    save_file(tensors, tmp_path / "old.safetensors", {"hept": json.dumps(card | {"version": 2})})
    assert same_models(load_model(tmp_path / "old.safetensors"), load_model(trained))
    save_file(tensors, tmp_path / "new.safetensors", {"hept": json.dumps(card)})
    with pytest.raises(InputError, match="no checksum in its header"):
        load_model(tmp_path / "new.safetensors")


@pytest.mark.parametrize("keep_last", [1, 2, 3])
def test_the_last_states_are_kept_newest_first(tmp_path, keep_last):
    for step in range(5):
        save_state(tmp_path, {"step": step}, keep_last=keep_last)
    names = ["resume.pt", "resume-1.pt", "resume-2.pt"][:keep_last]
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    assert [read_state(tmp_path / name)["step"] for name in names] == [4, 3, 2][:keep_last]


def test_failed_saves_lose_no_state(tmp_path):
    for step in range(3):
        save_state(tmp_path, {"step": step}, keep_last=3)
    for _ in range(4):
        with pytest.raises(AttributeError):
            save_state(tmp_path, {"step": lambda: 0}, keep_last=3)
    state, path, _ = load_newest(tmp_path)
    assert (state["step"], path.name) == (2, "resume-1.pt")
    assert read_state(tmp_path / "resume-2.pt")["step"] == 1


def test_states_of_earlier_versions_are_read(tmp_path):
    torch.save({"step": 3}, tmp_path / "resume.pt")
    assert read_state(tmp_path / "resume.pt") == {"step": 3}


class Lines:
    """A progress listener that records announcements."""

    def __init__(self):
        self.lines = []

    def start(self, description, total, unit, *, done=0):
        pass

    def advance(self, steps=1, note=""):
        pass

    def announce(self, line):
        self.lines.append(line)

    def finish(self):
        pass


def test_damage_to_one_state_costs_an_epoch_not_the_run(tracking_dataset, trained, tmp_path):
    from hept.runs.folder import RunFolder

    run = shutil.copytree(trained, tmp_path / "run")
    (run / "resume.pt").write_bytes((run / "resume.pt").read_bytes()[:-100])
    listener = Lines()
    result = fit(RunFolder(run).read_config(), tracking_dataset, run, resume=True, progress=listener)
    assert (result.epochs, result.steps) == (2, 8)
    assert "resume.pt: found a damaged state (its checksum does not match); continuing from step 4" in (
        " ".join(listener.lines)
    )
    assert RunFolder(run).read_rows("steps") == RunFolder(trained).read_rows("steps")
    assert (run / "resume.damaged").exists()
    for name in ("resume.pt", "resume-1.pt"):
        (run / name).write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"found damaged states only \(resume.pt, resume-1.pt: a damaged"):
        fit(RunFolder(run).read_config(), tracking_dataset, run, resume=True)


def test_a_run_is_not_resumed_with_settings_that_it_did_not_begin_with(tracking_dataset, trained, tmp_path):
    import hept

    run = shutil.copytree(trained, tmp_path / "run")
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text("# a remark\n" + text)
    assert hept.fit(tracking_dataset, resume=run).result.epochs == 2
    (run / "config.yaml").write_text(text.replace("seed: 42", "seed: 43"))
    with pytest.raises(
        InputError, match=r"config.yaml: found settings that were changed since the run began"
    ):
        hept.fit(tracking_dataset, resume=run)
    # Weights carry their own.
    assert same_models(load_model(run), load_model(trained))


@pytest.mark.parametrize(
    ("old", "new"), [('"scale": 0.001', '"scale": 0.002'), ("{", "["), ('"seed"', '"sead"'), ("", "3")]
)
def test_a_damaged_description_is_one_line(tracking_dataset, trained, tmp_path, old, new):
    import hept

    run = shutil.copytree(trained, tmp_path / "run")
    text = (run / "run.json").read_text()
    assert old in text
    (run / "run.json").write_text(text.replace(old, new, 1) if old else new)
    with pytest.raises(
        InputError, match=r"no readable run.json|run.json: found a damaged file \(its checksum"
    ):
        hept.fit(tracking_dataset, resume=run)


def spoil_table(path, number, change):
    lines = path.read_text().splitlines(keepends=True)
    lines[number] = change(lines[number])
    path.write_text("".join(lines), newline="")


@pytest.mark.parametrize(
    ("change", "epochs"),
    [
        (lambda line: line.replace(",", ",1,", 1), [2]),
        (lambda line: line[:9] + "\n", [2]),
        (lambda line: line.replace(".", "x", 1), [2]),
        (lambda line: "\udcff".encode(errors="surrogateescape").decode("latin-1") + line, [2]),
    ],
)
def test_a_damaged_line_of_a_table_is_left_out(tracking_dataset, trained, tmp_path, change, epochs):
    import hept

    run = shutil.copytree(trained, tmp_path / "run")
    spoil_table(run / "metrics.csv", 1, change)
    found = hept.open_run(run)
    assert found.history()["epoch"].tolist() == epochs
    assert "2 epochs" in found._repr_html_()
    assert hept.write_report(run, tracking_dataset, events=0).exists()


def test_a_damaged_header_is_one_line_and_costs_the_table_only(tracking_dataset, trained, tmp_path):
    import hept

    run = shutil.copytree(trained, tmp_path / "run")
    before = (run / "steps.csv").read_text()
    for name in ("metrics.csv", "steps.csv"):
        spoil_table(run / name, 0, lambda line: line.replace("ep", "xx"))
    with pytest.raises(InputError, match=r"metrics.csv: found a damaged table \(no column epoch\)"):
        hept.open_run(run).history()
    assert hept.fit(tracking_dataset, resume=run).result.epochs == 2
    assert (run / "steps.damaged").read_text() == before.replace("step,epoch", "stxx,xxoch", 1)
    spoil_table(
        shutil.copytree(trained, tmp_path / "other") / "metrics.csv", 0, lambda line: line.replace("_", "-")
    )
    assert hept.write_report(tmp_path / "other", tracking_dataset, events=0).exists()
