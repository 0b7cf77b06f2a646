import pytest

from hepdata.errors import InputError
from hept.settings.load import list_presets, load_config
from hept.settings.preset_choice import choose_preset, describe_presets, find_published


def test_every_preset_says_what_it_is_for():
    cards = {card.name: card for card in describe_presets()}
    assert set(cards) == set(list_presets())
    for name, card in cards.items():
        config = load_config(name)
        assert (card.task, card.epochs) == (config.task, config.epochs)
        assert card.purpose
        assert card.time
    assert {name for name, card in cards.items() if card.device == "gpu"} == {
        "tracking-60k",
        "tracking-6k",
        "pileup-10k",
    }


@pytest.mark.parametrize(
    ("task", "points", "on_cpu", "on_gpu"),
    [
        ("tracking", 200, "tracking-demo", "tracking-demo"),
        ("tracking", 2_900, "tracking-demo", "tracking-demo"),
        ("tracking", 3_100, "tracking-laptop", "tracking-6k"),
        ("tracking", 6_100, "tracking-laptop", "tracking-6k"),
        ("tracking", 56_000, "tracking-laptop", "tracking-60k"),
        ("pileup", 2_000, "pileup-demo", "pileup-demo"),
        ("pileup", 10_000, "pileup-laptop", "pileup-10k"),
        ("pileup", 0, "pileup-demo", "pileup-demo"),
    ],
)
def test_the_preset_follows_task_size_and_device(task, points, on_cpu, on_gpu):
    assert choose_preset(task, points, has_gpu=False).name == on_cpu
    assert choose_preset(task, points, has_gpu=True).name == on_gpu


def test_a_task_of_ones_own_gets_the_preset_of_its_objective():
    for objective, expected in (("pairs", "points-pairs"), ("classification", "points-classes")):
        assert choose_preset("mine", 300, has_gpu=True, objective=objective).name == expected
        assert load_config(expected, task="mine").task == "mine"
    assert load_config("pileup-demo", task="mine").task == "pileup"
    with pytest.raises(InputError, match="task 'mine': found no preset for this task"):
        choose_preset("mine", 300, has_gpu=False, objective="regression")


def test_a_published_preset_has_one_for_laptops():
    found = {name: find_published(name) for name in [*list_presets(), "mine.yaml"]}
    assert {pair[0].name: pair[1].name for pair in found.values() if pair is not None} == {
        "tracking-60k": "tracking-laptop",
        "tracking-6k": "tracking-laptop",
        "pileup-10k": "pileup-laptop",
    }


def test_what_a_preset_says_of_itself_is_no_setting(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("about: {purpose: mine}\nextends: pileup-10k\n")
    assert load_config(str(path)) == load_config("pileup-10k")
