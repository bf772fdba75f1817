"""Models on each client's own data: against every client's mean by a plain loop."""

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.core.flat import unravelled
from hush.execution.simulation import Simulation

pytestmark = pytest.mark.slow


def by_loop(problem, vectors):
    """Loss and accuracy of each client's own examples under a model for each, one client after the other."""
    loss, accuracy = [], []
    for client, vector in enumerate(vectors):
        x, y = problem.client(client).examples(jnp.arange(int(problem.population.sizes[client])))
        logits = np.asarray(problem.model.apply(unravelled(problem, jnp.asarray(vector)), x), float)
        chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        loss.append(-np.log(chances[np.arange(len(y)), np.asarray(y)]).mean())
        accuracy.append((logits.argmax(1) == np.asarray(y)).mean())
    return {"loss": loss, "accuracy": accuracy}


@pytest.mark.parametrize("devices", [1, 2])
def test_the_global_and_the_personal_model_of_each_client(unequal, devices, monkeypatch):
    monkeypatch.setattr("hush.core.evaluation.EVALUATE_AT_ONCE", 4)  # of 13 examples at the most
    simulation = Simulation(hush.ditto(3, steps=2, lr=0.5), unequal, repetitions=2, devices=devices)
    simulation.advance(3)
    assert simulation.has_personal_models
    found = simulation.evaluate_clients()
    for lane in range(2):
        every = by_loop(unequal, [simulation.models[lane]] * 7)
        own = by_loop(unequal, np.asarray(simulation.clients[0]["local"]["personal"])[lane])
        for name in ("loss", "accuracy"):
            np.testing.assert_allclose(found[name][lane], every[name], rtol=1e-4)
            np.testing.assert_allclose(found[f"personal_{name}"][lane], own[name], rtol=1e-4)


def test_the_global_objective_is_the_clients_mean_by_share(unequal):
    simulation = Simulation(hush.fedavg(steps=2, lr=0.5), unequal)
    simulation.advance(2)
    assert not simulation.has_personal_models
    own = simulation.evaluate_clients()["loss"][0]
    assert float(np.asarray(unequal.population.shares) @ own) == pytest.approx(
        float(simulation.evaluate()["train_loss"][0]), rel=1e-5
    )


def test_who_sends_a_part_of_the_model_is_not_watched(unequal):
    with pytest.raises(ValueError, match="these clients send only a part of it"):
        Simulation(hush.fedper([(0, 3)]), unequal, watch=True)
