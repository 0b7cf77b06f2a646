"""The plan of memory against counts by hand; test_on_devices compares its formula with counted memory."""

import json

import pytest

import hept
from hepdata.errors import InputError
from hept_cli.train import group

SETTINGS = {"model.hidden_dim": 8, "model.n_heads": 2}


def plan(dataset, **changes):
    settings = {**SETTINGS, **changes}
    return hept.plan_memory(dataset, preset="tracking-demo", settings=settings, device="cpu")


def test_the_largest_batch_decides(tracking_dataset):
    # Four clouds of 170 points.
    assert plan(tracking_dataset).n_points == 170
    assert plan(tracking_dataset, batch_size=3).n_points == 510
    assert plan(tracking_dataset, batch_points=400).n_points == 340
    two = hept.plan_memory(
        tracking_dataset, preset="tracking-demo", settings={"batch_size": 2}, device="cpu", devices=2
    )
    assert two.n_points == 340


def test_what_depends_on_points_and_what_does_not(tracking_dataset):
    one, two = plan(tracking_dataset), plan(tracking_dataset, batch_size=2)
    assert (one.parameters, one.optimizer) == (two.parameters, two.optimizer)
    for name in ("batch", "activations", "workspace"):
        assert getattr(two, name) == 2 * getattr(one, name)
    assert two.pairs == pytest.approx(2 * one.pairs, abs=16)
    assert one.total == sum(v for k, v in vars(one).items() if not k.startswith("n_"))
    sparing = plan(tracking_dataset, checkpoint_activations=True)
    assert sparing.activations < one.activations


def test_parameters_are_those_of_the_network(tracking_dataset):
    run_settings = hept.describe("tracking-demo", settings=SETTINGS)
    # 4 bytes a weight and its gradient.
    assert plan(tracking_dataset).parameters == 8 * run_settings.trainable


def test_clouds_without_pairs_need_none(pileup_dataset):
    assert hept.plan_memory(pileup_dataset, preset="pileup-demo", device="cpu").pairs == 0


def test_other_models_have_no_formula(tracking_dataset):
    with pytest.raises(InputError, match=r"model.kind=gravnet: found no formula"):
        hept.plan_memory(tracking_dataset, preset="tracking-demo", model="gravnet", device="cpu")


def test_the_command_prints_it_and_makes_no_run(tracking_dataset, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    group.main(
        ["fit", str(tracking_dataset), "--plan", "--device", "cpu", "--json", "plan.json"],
        standalone_mode=False,
    )
    said = capsys.readouterr().out
    assert "points of the largest batch" in said
    assert "activations" in said
    told = json.loads((tmp_path / "plan.json").read_text())
    assert told["total"] > told["activations"] > 0
    assert not (tmp_path / "runs").exists()
