"""Data that stays on devices: what the server has of it, and that a device with its part computes the same."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import hush
from hush.core.flat import initial
from hush.core.keys import root
from hush.core.round import broadcast_of_round, client_key, client_step
from hush.network.holding import holding
from hush.privacy import describe
from hush.settings import SettingsError, build
from hush.tasks.remote import held

SIZES = [12, 20, 9]
SHAPE = [3, 2, 1]


def examples(count, seed=0):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(count, *SHAPE)).astype(np.float32), draw.integers(0, 4, count)


def problem(**settings):
    return hush.tasks.remote(SIZES, shape=SHAPE, outputs=4, **settings)


def test_the_server_has_numbers_and_a_model_and_no_example():
    here = problem()
    assert here.population.examples == sum(SIZES)
    assert here.train.x.shape == (0, *SHAPE)
    assert here.tables() == {}
    assert hush.network.agree(hush.fedavg(), here, hush.settings.RunSettings(rounds=2)).header["clients"] == 3


def test_a_device_with_its_own_part_computes_what_a_simulation_of_all_computes():
    parts = [examples(size, seed) for seed, size in enumerate(SIZES)]
    ids = np.repeat(np.arange(3), SIZES)
    x, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    whole = hush.tasks.arrays(x, y, ids, model="softmax", scale=2.0, shift=0.5)
    algorithm = hush.scaffold(clients=2, steps=3, lr=0.1, batch=4)
    model = initial(whole, root(0))
    server = hush.init_server(algorithm, model)
    told = broadcast_of_round(algorithm, root(1), server)
    for client, (own_x, own_y) in enumerate(parts):
        mine = held(problem(scale=2.0, shift=0.5), client, own_x, own_y)
        state = hush.init_client(algorithm, model)
        sent = [
            client_step(algorithm, client_key(root(1), client), told, state, each.client(client))[0]
            for each in (whole, mine)
        ]
        for name in sent[0]:
            np.testing.assert_allclose(sent[0][name], sent[1][name], atol=1e-6)


def test_the_server_measures_on_its_own_test_examples(tmp_path):
    x, y = examples(30)
    np.savez(tmp_path / "test.npz", x=x, y=y)
    here = problem(test=str(tmp_path / "test.npz"))
    assert list(here.tables()) == ["test"]
    # Where the test lies is the server's own matter.
    agreed = hush.network.agree(hush.fedavg(), here, hush.settings.RunSettings(rounds=2))
    assert "test.npz" not in agreed.text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x, y: (x[:-1], y[:-1]), "was announced with 20 examples, found 19"),
        (lambda x, y: (x[:, :2], y), r"inputs must have shape \(3, 2, 1\), found \(2, 2, 1\)"),
        (lambda x, y: (x, y + 4), "labels must be below 4"),
        (lambda x, y: (x * np.nan, y), "must be finite numbers"),
        (lambda x, y: (x, y[:-1]), "as long as each other"),
    ],
)
def test_data_that_is_not_as_announced_is_refused(change, reason):
    with pytest.raises(ValueError, match=reason):
        held(problem(), 1, *change(*examples(20)))


def test_rows_of_numbers_are_put_in_the_shape_of_an_input():
    x, y = examples(20)
    np.testing.assert_array_equal(held(problem(), 1, x.reshape(20, -1), y).train.x, jnp.asarray(x))


def test_data_comes_from_files_and_functions(tmp_path, monkeypatch):
    x, y = examples(20)
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    table = pd.DataFrame(x.reshape(20, -1)).rename(columns=str).assign(ward=y)
    table.to_parquet(tmp_path / "mine.parquet")
    (tmp_path / "owner.py").write_text("import numpy as np\ndef data():\n    return dict(np.load('mine.npz')).values()")
    (tmp_path / "pair.py").write_text(
        "import numpy as np\ndef data():\n    f = np.load('mine.npz'); return f['x'], f['y']"
    )
    monkeypatch.chdir(tmp_path)
    for source, label in (("mine.npz", "y"), ("mine.parquet", "ward"), ("pair:data", "y")):
        found = holding(source, problem(), 1, label).problem.train
        np.testing.assert_array_equal(found.x, jnp.asarray(x))
        np.testing.assert_array_equal(found.y, y)
    for source, reason in (
        ("mine.csv", r"must be an \.npz, \.parquet or \.txt file"),
        ("absent:data", "names no function that can be imported"),
        ("owner:data", r"must return a pair \(x, y\)"),
        ("pair:np.pi", "must be a function, found float"),
        ("absent.npz", "cannot be read"),
        ("mine.parquet", "must have a column 'y' of labels"),
    ):
        with pytest.raises(ValueError, match=reason):
            holding(source, problem(), 1)


def test_a_pickle_in_an_archive_is_not_run(tmp_path):
    np.savez(tmp_path / "evil.npz", x=np.array([{"a": 1}], object), y=np.zeros(1))
    with pytest.raises(ValueError, match="cannot be read"):
        holding(str(tmp_path / "evil.npz"), problem(), 1)


def test_settings_files_name_it():
    made = build(
        {
            "task": {"name": "remote", "sizes": SIZES, "shape": SHAPE, "outputs": 4},
            "algorithm": {"name": "fedavg"},
            "network": {"deadline": 5.0, "minimum": 0.5},
        }
    )
    assert made.problem().population.clients == 3
    assert made.network.deadline == 5.0
    for table, reason in (
        ({"minimum": 0.9, "enough": 0.5}, "must not be above enough"),
        ({"deadline": -1.0}, "deadline must be"),
        ({"minimum": 2.0}, "share from 0 to 1"),
        ({"dedline": 1.0}, "did you mean|known"),
    ):
        with pytest.raises(SettingsError, match=reason):
            build({"algorithm": {"name": "fedavg"}, "network": table})


def test_it_is_not_simulated():
    with pytest.raises(ValueError, match="lie on devices, and none of them here: run it with hush serve"):
        hush.run(hush.fedavg(), problem(), 2, progress=False)


def test_what_devices_hold_is_assumed_and_said():
    private = hush.private_fedpaq(clients=2, steps=2, batch=3, noise_multiplier=4.0)
    table = describe(private, problem(), 5).table(1e-5)
    assert any("no two devices hold the same example" in text for text in table.values())
