import pytest
import yaml

from hepdata.errors import InputError
from hept.settings.load import check_config, list_presets, load_config
from hept.settings.train_config import ANY_TASK, TrainConfig


@pytest.mark.parametrize("preset", list_presets())
def test_every_preset_is_whole_and_says_so_in_yaml(preset):
    config = load_config(preset)
    assert config.task in (*preset.split("-"), ANY_TASK)
    assert TrainConfig.model_validate(yaml.safe_load(config.to_yaml())) == config


def test_published_settings():
    sixty, six, pileup = (load_config(name) for name in ("tracking-60k", "tracking-6k", "pileup-10k"))
    for config in (sixty, six, pileup):
        model = config.model
        assert (model.n_layers, model.hidden_dim, model.n_heads, model.block_size, model.n_tables) == (
            4,
            24,
            8,
            100,
            3,
        )
    assert (sixty.optimizer.lr, six.optimizer.lr, pileup.optimizer.lr) == (1e-2, 1e-3, 1e-3)
    assert (six.optimizer.schedule, six.optimizer.step_epochs, six.optimizer.factor) == ("step", 500, 0.5)
    assert (pileup.optimizer.schedule, pileup.optimizer.patience) == ("plateau", 20)
    assert (six.model.n_regions, pileup.model.n_regions) == (150, 140)
    assert (six.model.out_dim, pileup.model.out_dim) == (12, 1)
    assert (six.loss.tau, six.loss.random_negatives, six.loss.pt_min) == (0.05, 0.2, 0.9)
    assert (pileup.loss.alpha, pileup.loss.gamma) == (0.25, 2.0)


def test_overrides_go_on_top():
    config = load_config(
        "tracking-6k", ["model.n_tables=5", "epochs=3", "data.features=[r, phi]", "ema_decay=0.99"]
    )
    assert (config.model.n_tables, config.epochs, config.ema_decay) == (5, 3, 0.99)
    assert config.data.features == ["r", "phi"]
    assert config.model.n_regions == 150


def test_a_file_of_ones_own_may_extend_a_preset(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("extends: pileup-10k\nmodel: {n_layers: 1}\n")
    config = load_config(str(path))
    assert (config.task, config.model.n_layers, config.model.n_regions) == ("pileup", 1, 140)


@pytest.mark.parametrize(
    ("preset", "overrides", "message"),
    [
        ("tracking-6", [], "found no preset of this name.*did you mean 'tracking-6k'"),
        (
            "tracking-6k",
            ["model.n_table=5"],
            "unknown setting 'model.n_table'.*did you mean 'model.n_tables'",
        ),
        ("tracking-6k", ["epoch=5"], "unknown setting 'epoch'.*did you mean 'epochs'"),
        ("tracking-6k", ["lr=1"], "unknown setting 'lr'.*did you mean 'optimizer.lr'"),
        ("tracking-6k", ["model.tau=1"], "unknown setting 'model.tau'.*did you mean 'loss.tau'"),
        (
            "tracking-6k",
            ["modle.n_tables=1"],
            "unknown .*did you mean 'model.n_tables'",
        ),
        ("tracking-6k", ["n_tabels=1"], "unknown setting 'n_tabels'.*did you mean 'model.n_tables'"),
        (
            "tracking-6k",
            ["model=3"],
            "found model = 3; .* set one of model.kind, model.kernel",
        ),
        ("tracking-6k", ["epochs.more=5"], "unknown setting 'epochs.more'"),
        (
            "tracking-6k",
            ["epochs=-1"],
            "found epochs = -1; expected input should be greater than or equal to 1",
        ),
        ("tracking-6k", ["epochs"], "found no '='; expected KEY=VALUE"),
        ("tracking-6k", ["epochs=[1"], "found a value that is not YAML"),
        ("nowhere.yaml", [], "No such file"),
    ],
)
def test_wrong_settings_are_one_line(preset, overrides, message):
    with pytest.raises(InputError, match=message) as caught:
        load_config(preset, overrides)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_settings(tmp_path):
    path = tmp_path / "list.yaml"
    path.write_text("[1, 2]")
    with pytest.raises(InputError, match="found a list; expected settings as `key: value`"):
        load_config(str(path))


def test_a_missing_key_is_named():
    with pytest.raises(InputError, match="found no task; expected settings that extend a preset"):
        check_config({"epochs": 2}, where="config.yaml")


def test_a_seed_has_63_bits():
    assert load_config("tracking-demo", [f"seed={2**63 - 1}"]).seed == 2**63 - 1
    with pytest.raises(InputError, match=r"found seed = 9223372036854775808; expected input should be less"):
        load_config("tracking-demo", [f"seed={2**63}"])


def test_files_that_extend_themselves_or_each_other_are_one_line(tmp_path):
    own, a, b = (tmp_path / f"{name}.yaml" for name in ("own", "a", "b"))
    own.write_text(f"extends: {own}\n")
    a.write_text(f"extends: {b}\n")
    b.write_text(f"extends: {a}\n")
    with pytest.raises(InputError, match=r"own.yaml: found a file that extends itself"):
        load_config(str(own))
    with pytest.raises(InputError, match=r"a.yaml: found files that extend each other"):
        load_config(str(a))


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: " + "[" * 5000 + "]" * 5000, "nested deeper than 20 levels"),
        ("task: " + "[" * 50 + "]" * 50, "nested deeper than 20 levels"),
        (LAUGHS, "more than 10,000 values, with aliases expanded"),
        ("a: &a [*a]", "nested deeper than 20 levels"),
        ("a: &a [*a, *a]", "more than 10,000 values|nested deeper"),
        ("seed: " + "9" * 5000, "Exceeds the limit"),
        ("seed: 2024-99-99", "month must be in 1..12"),
        ("seed: !!bool x", "x"),
        ("seed: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("x" * 1_000_001, "more than 1,000,000 characters"),
    ],
    ids=range(10),
)
def test_yaml_that_explodes_is_one_line(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"mine.yaml: found .*({message})") as caught:
        load_config(str(path))
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 1000
    if text.startswith(("task: ", "seed: ")):
        key, _, value = text.partition(": ")
        with pytest.raises(InputError, match=message):
            load_config("tracking-demo", [f"{key}={value}"])


def test_a_file_without_a_task_is_told_to_extend_a_preset(tmp_path):
    (tmp_path / "own.yaml").write_text("epochs: 1\n")
    with pytest.raises(InputError, match=r"found no task; .*extends: tracking-6k"):
        load_config(str(tmp_path / "own.yaml"))
