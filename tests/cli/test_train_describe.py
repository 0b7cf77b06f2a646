"""`hept-train describe`: presets, checkpoints, JSON and errors."""

import json

import pytest
import torch
from click.testing import CliRunner

from hepdata.errors import InputError
from hept.paper import literal_model
from hept_cli.train_describe import command


def describe(*arguments):
    result = CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=True)
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("preset", "gflops"),
    [("tracking-6k", {6000: 5.0}), ("tracking-60k", {60000: 52.2}), ("pileup-10k", {10000: 8.5})],
)
def test_presets_cost_what_the_paper_says(preset, gflops, tmp_path):
    printed = describe(preset, "--json", tmp_path / "cost.json")
    content = json.loads((tmp_path / "cost.json").read_text())
    measured = {entry["n_points"]: entry["gflops"] for entry in content["flops"]}
    for n_points, expected in gflops.items():
        assert measured[n_points] == pytest.approx(expected, rel=0.15)
        assert f"GFLOPs at {n_points:,} points" in printed
    assert content["parameters"] / 1e6 == pytest.approx(0.33, rel=0.15)


def test_settings_and_points_can_be_chosen(tmp_path):
    describe(
        "tracking-60k",
        "--points",
        1000,
        "--points",
        2000,
        "--set",
        "model.n_tables=6",
        "--json",
        tmp_path / "a",
    )
    describe("tracking-60k", "--points", 2000, "--json", tmp_path / "b")
    more, less = (json.loads((tmp_path / name).read_text())["flops"] for name in "ab")
    assert [entry["n_points"] for entry in more] == [1000, 2000]
    assert more[1]["parts"]["attention"] > 1.8 * less[0]["parts"]["attention"] - less[0]["gflops"]
    assert more[1]["gflops"] > 1.5 * less[0]["gflops"]


def test_a_checkpoint_in_the_published_layout_is_described(tmp_path):
    state = literal_model.draw_state()
    torch.save(state, tmp_path / "model.pt")
    # Each of the four blocks keeps a copy of the regions, and the bias of w_rpe is unused.
    used = sum(tensor.numel() for name, tensor in state.items() if not name.endswith("w_rpe.bias"))
    n_numbers = used + 3 * state["regions"].numel()
    assert f"{n_numbers:,}" in describe(tmp_path / "model.pt", "--points", 500)


def test_the_published_checkpoint_is_described(real_file):
    assert "328,740" in describe(real_file("data/checkpoint/tracking-60k-model.pt"), "--points", 500)


def test_an_unknown_name_gets_the_nearest_preset():
    with pytest.raises(InputError, match=r"no preset or file of this name.*did you mean 'tracking-60k'\?"):
        describe("tracking-60")


def test_weights_have_no_settings_to_change():
    with pytest.raises(InputError, match="weights keep their settings"):
        describe("runs/a", "--set", "model.n_tables=6")
