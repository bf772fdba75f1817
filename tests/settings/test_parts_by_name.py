"""Parts of a model by name, as settings say them: the same as from Python, known again, refused where they stand."""

import tomllib
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import hush
from hush.app.show import text
from hush.core.costs import costs
from hush.core.flat import dimension
from hush.models import build as model_of
from hush.models import frozen, lora, trainable
from hush.models.partly import Partly
from hush.settings import SettingsError, build, dumps, read
from hush.store.fingerprint import fingerprint

# digits are 8 × 8: 64-6-10
TASK = {"name": "digits", "clients": 4, "model": "mlp", "examples_per_client": 8}
ALGORITHM = {"algorithm": {"name": "fedavg", "clients": 2, "steps": 1, "lr": 0.5}}
NAMES = [".layers[1].weight", ".layers[1].bias", ".layers[3].weight", ".layers[3].bias"]


def experiment(**parts: Any) -> Any:
    tables = ALGORITHM | {"task": TASK | {"model_options": {"hidden": 6} | parts}}
    return build(tomllib.loads(dumps(tables)))


def base() -> Any:
    return model_of("mlp", (8, 8, 1), 10, jax.random.key(0), hidden=6)


@pytest.mark.parametrize(
    ("parts", "made", "numbers"),
    [
        ({"trainable": ["*layers[3]*"]}, lambda: trainable(base(), ["*layers[3]*"]), 6 * 10 + 10),
        ({"frozen": ["*bias", "*[1].w*"]}, lambda: frozen(base(), ["*bias", "*[1].w*"]), 6 * 10),
        ({"lora": {}}, None, 4 * (64 + 6) + 4 * (6 + 10)),
        ({"lora": {"rank": 2, "alpha": 1, "where": ["*[3]"], "also": ["*[1].bias"]}}, None, 2 * (6 + 10) + 6),
    ],
)
def test_only_the_part_is_trained_sent_and_counted(parts: Any, made: Any, numbers: int) -> None:
    found = experiment(**parts)
    problem = found.problem()
    assert isinstance(problem.model, Partly)
    assert dimension(problem) == numbers
    assert costs(found.algorithm, problem).client_uplink_bits.most == 32 * numbers
    if made is not None:
        assert eqx.tree_equal(problem.model, made())
    x = np.asarray(problem.train.x[0], np.float32)[..., None] / 255
    np.testing.assert_allclose(problem.model(x), base()(x), rtol=1e-5, err_msg="it begins as the model itself")


def test_what_is_settable_of_lora_is_what_python_sets() -> None:
    problem = experiment(lora={"rank": 2, "alpha": 3.0}).problem()
    made = lora(base(), 2, 3.0, key=jax.random.fold_in(jax.random.key(0), 1))
    assert eqx.tree_equal(problem.model, made)


def test_a_run_is_known_again_by_its_folder(unpainted: Any, tmp_path: Any) -> None:
    found = experiment(lora={"rank": 1})
    problem = found.problem()
    for rounds in (1, 2):
        hush.run(found.algorithm, problem, rounds, folder=tmp_path / "run", resume=rounds > 1, progress=False)
        again = build(read(tmp_path / "run" / "settings.toml"))
        assert again.task["model_options"] == {"hidden": 6, "lora": {"rank": 1}}
        problem = again.problem()  # the second half goes on with what the file makes
    loaded = hush.load(tmp_path / "run")
    assert loaded.vector.shape[1] == dimension(problem)
    assert loaded.status["dimension"] == dimension(problem)
    other = experiment(lora={"rank": 1, "alpha": 2.0}).problem()
    before, now = (fingerprint(found.algorithm, each, {}) for each in (problem, other))
    assert any("scale" in name for name in before.differences(now))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"lora": {"rnk": 4}}, r"task\.model_options\.lora\.rnk: unknown setting of lora; did you mean 'rank'"),
        ({"lora": {"rank": 1.5}}, r"task\.model_options\.lora\.rank: must be a whole number, found 1\.5"),
        ({"lora": 4}, r"task\.model_options\.lora: must be a table, found 4"),
        ({"trainable": "head"}, r"task\.model_options\.trainable: must be an array, each text, found 'head'"),
        ({"trainble": ["*"]}, r"task\.model_options\.trainble: unknown option of mlp; did you mean 'trainable'"),
        ({"trainable": ["head"]}, r"task: no parameter is called 'head'; there are \.layers\[1\]\.weight"),
        ({"frozen": ["*"]}, "task: none of the arrays of Sequential is to be trained"),
        ({"lora": {"rank": 0}}, "task: rank must be .* found 0"),
        ({"lora": {}, "frozen": ["*bias"]}, "task: a part of a model is said in one way, found frozen and lora"),
    ],
)
def test_what_cannot_be_a_part_is_refused(parts: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        experiment(**parts).problem()


def test_from_python_it_is_an_option_of_the_model_too() -> None:
    x, y = np.ones((6, 5), np.float32), np.arange(6) % 3
    options = {"hidden": 4, "trainable": NAMES[2:]}
    made = hush.tasks.arrays(x, y, np.arange(6) % 2, model="mlp", model_options=options)
    assert list(hush.parameters(made)) == NAMES[2:]
    for wrong, said in (({"lora": 4}, "lora must be a table"), ({"lora": {"key": 1}}, "unknown setting of lora 'key'")):
        with pytest.raises(ValueError, match=said):
            hush.tasks.arrays(x, y, np.arange(6) % 2, model="mlp", model_options=wrong)
    plain = hush.tasks.arrays(x, y, np.arange(6) % 2, model="mlp", model_options={"hidden": 4, "lora": None})
    assert list(hush.parameters(plain)) == NAMES


def test_the_settings_of_a_model_say_it() -> None:
    shown = text("gpt")
    assert "# lora =  # not set: a table" in shown
    assert "# trainable =  # not set: an array, each text" in shown
    assert "one of these" in shown
