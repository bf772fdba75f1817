"""Text on devices: each reads its own file, and a federation of them is the simulation of all of it."""

import contextlib
from typing import Any

import numpy as np
import pytest

import hush
from hush.network.agreement import agree
from hush.network.joining import prepared
from hush.network.memory import InMemory
from hush.network.serving import serve
from hush.settings import RunSettings

TEXTS = {0: "a rose is a rose is a rose", 1: "so few words", 2: "the engine weaves patterns"}
LENGTH, TEST = 5, "a word is a rose"
OPTIONS = {"width": 4, "embedding": 3}


@pytest.mark.slow
def test_model_bits_and_measures_are_the_simulators(tmp_path: Any) -> None:
    whole = hush.tasks.tokens(TEXTS, model="gru", model_options=OPTIONS, length=LENGTH, test=TEST)
    for name, text in [*TEXTS.items(), ("test", TEST)]:
        (tmp_path / f"{name}.txt").write_text(text)
    sizes = np.asarray(whole.population.sizes).tolist()
    problem = hush.tasks.remote(
        sizes, shape=[LENGTH], outputs=101, kind="text", model="gru", model_options=OPTIONS,
        test=str(tmp_path / "test.txt"),
    )  # fmt: skip
    algorithm, run = hush.fedavg(clients=2, steps=2, lr=0.5, batch=2), RunSettings(rounds=2, evaluate_every=1)
    agreement = agree(algorithm, problem, run, rehearsal=True)
    assert "rose" not in agreement.text
    assert "test.txt" not in agreement.text

    @contextlib.contextmanager
    def connect(desk: Any) -> Any:
        """Every device makes all that it has of the agreement and of its own file."""
        yield InMemory(desk, {client: device(client) for client in TEXTS})

    def device(client: int) -> Any:
        place = tmp_path / f"device-{client}"
        place.mkdir()
        return prepared(agreement, client, str(tmp_path / f"{client}.txt"), place, "y", None, False, True)

    here = serve(algorithm, problem, run, connect, rehearsal=True, progress=False)
    simulated = hush.run(algorithm, whole, 2, evaluate_every=1, evaluate_clients=False, progress=False)
    np.testing.assert_allclose(here.vector, simulated.vector, rtol=1e-4, atol=1e-6)
    for name in ("uplink_bits", "downlink_bits"):
        np.testing.assert_array_equal(here.records[name], simulated.records[name])
    for name in ("test_loss", "perplexity", "accuracy"):
        np.testing.assert_allclose(here.records[name], simulated.records[name], rtol=1e-4)
