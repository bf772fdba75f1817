"""What attacks put in the place of clients' data: the same as other data, trained on plainly."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import beta, kstest

import hush
from hush.audits.client_canaries import cosines
from hush.audits.example_canaries import with_alternatives
from hush.audits.observing import seen_by
from hush.audits.planting import Directions, Masks, Swaps, direction, lanes_of, planted
from hush.audits.scoring import losses
from hush.audits.views import Masked
from hush.core.flat import ravel
from hush.execution.simulation import Simulation

pytestmark = pytest.mark.slow


def trained(algorithm, problem, lanes=None, rounds=2, **options):
    simulation = Simulation(algorithm, problem, seed=5, lanes=lanes, **options)
    simulation.advance(rounds)
    return simulation


def plainly(problem, kept, steps, lr, rounds):
    """FedAvg by full gradients over the examples that are in, one client after the other."""
    model = jnp.zeros(5 * 3 + 3)
    offsets, sizes = np.asarray(problem.offsets), np.asarray(problem.population.sizes)
    unravel = problem.client(0).unravel

    @jax.jit
    @jax.grad
    def gradient(vector, counts):
        every = problem.measured(unravel(vector), *problem.train[jnp.arange(len(counts))])["loss"]
        return counts @ every / jnp.sum(counts)

    for _ in range(rounds):
        moved = jnp.zeros_like(model)
        for client, size in enumerate(sizes):
            rows = np.asarray(problem.index)[offsets[client] : offsets[client] + size][kept[client][:size]]
            now, counts = model, np.isin(np.arange(sizes.sum()), rows).astype(np.float32)
            for _ in range(steps if len(rows) else 0):
                now = now - lr * gradient(now, counts)
            moved += size / sizes.sum() * (now - model)
        model = model + moved
    return model


class TestMasks:
    def test_lanes_train_on_what_their_coins_leave(self, unequal):
        masks, clients = Masks(7), range(7)
        made = planted(hush.fedavg(steps=3, lr=0.2), masks)
        found = trained(made, unequal, lanes_of(made, [0, 4])).models
        first = Simulation(made, unequal, seed=5, lanes=lanes_of(made, [0, 4])).models
        assert (first == 0).all()  # softmax regression begins there
        for lane, number in enumerate((0, 4)):
            kept = [np.asarray(masks.coins(number, client, 13)) for client in clients]
            np.testing.assert_allclose(found[lane], plainly(unequal, kept, 3, 0.2, 2), atol=1e-5)

    def test_an_example_that_is_out_counts_as_zero_where_each_is_clipped(self, unequal):
        kept = jnp.asarray(np.arange(13) % 2, jnp.float32)
        whole = unequal.client(1)
        view, rows, weights = Masked(whole, kept), jnp.arange(6), jnp.full(6, 1 / 6)
        params = whole.unravel(jnp.linspace(-1, 1, 18))
        of_examples = jax.jit(lambda data: jax.vmap(lambda g: ravel(g)[0])(data.example_gradients(params, rows)))
        each = of_examples(whole)
        clipped = each * np.minimum(1, 0.3 / np.linalg.norm(each, axis=1, keepdims=True))
        expected = (np.asarray(kept)[:6, None] * clipped).sum(0) / 6
        found = jax.jit(lambda data: ravel(data.clipped_gradient(params, rows, weights, 0.3))[0])(view)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        np.testing.assert_allclose(of_examples(view), np.asarray(kept)[:6, None] * each, atol=1e-7)

    def test_none_of_a_batch_gives_nothing(self, unequal):
        view = Masked(unequal.client(1), jnp.zeros(13))
        params = view.unravel(jnp.linspace(-1, 1, 18))
        found = jax.jit(lambda data: ravel(data.gradient(params, jnp.arange(4), jnp.full(4, 0.25)))[0])(view)
        assert (found == 0).all()

    def test_sizes_shares_and_measures_stay(self, unequal):
        whole = unequal.client(3)
        view = Masked(whole, jnp.zeros(13))
        assert (view.size, view.extent) == (whole.size, whole.extent)
        assert float(view.share) == float(whole.share)
        params, rows = whole.unravel(jnp.ones(18)), jnp.arange(2)
        assert (view.evaluate(params, rows)["loss"] == whole.evaluate(params, rows)["loss"]).all()


class TestDirections:
    def test_a_canary_sends_its_direction_as_long_as_it_may(self, unequal):
        algorithm = hush.ce_fedavg(clip=0.5, steps=2, lr=0.1)
        made = seen_by(planted(algorithm, Directions(3, 2, 18, True)), "messages")
        sent = trained(made, unequal, rounds=1).clients[0]["local"]["sent"][0]
        coins = Directions(3, 2, 18, True).coins(0)
        for place, client in enumerate((5, 6)):
            signed = (1 if coins[place] else -1) * 0.5 * direction(3, client, 18)
            np.testing.assert_allclose(sent[client], signed, rtol=1e-4)

    def test_others_are_as_ever(self, unequal):
        algorithm = hush.fedavg(steps=2, lr=0.1)
        plain = trained(seen_by(algorithm, "messages"), unequal, rounds=1).clients[0]["local"]["sent"][0]
        made = seen_by(planted(algorithm, Directions(3, 2, 18, True)), "messages")
        sent = trained(made, unequal, rounds=1).clients[0]["local"]["sent"][0]
        np.testing.assert_allclose(sent[:5], plain[:5], rtol=1e-5, atol=1e-7)

    def test_cosines_of_directions_nobody_sent(self):
        """(1 + cosine)/2 is Beta((d − 1)/2, (d − 1)/2); by Kolmogorov and Smirnov, fails once in 1,000 seeds."""
        size, vector = 40, jnp.asarray(np.random.default_rng(0).normal(size=(1, 40)), jnp.float32)
        found = np.asarray(cosines(11, jnp.arange(2000), vector))[0]
        assert kstest((1 + found) / 2, beta((size - 1) / 2, (size - 1) / 2).cdf).pvalue > 1e-3
        expected = [float(vector[0] @ direction(11, client, size) / jnp.linalg.norm(vector)) for client in range(3)]
        np.testing.assert_allclose(found[:3], expected, rtol=1e-5)


class TestSwaps:
    def test_lanes_train_on_what_their_coins_choose(self, unequal):
        changed, swaps, who = with_alternatives(unequal, 10, 2)
        made = planted(hush.fedavg(steps=2, lr=0.3, batch=4), swaps)
        found = trained(made, changed, lanes_of(made, [0, 1])).models
        index, rows = np.asarray(changed.index), np.asarray(swaps.rows)
        for lane in (0, 1):
            chosen = index.copy()
            chosen[np.asarray(swaps.places)] = np.where(np.asarray(swaps.coins(lane)), rows[:, 1], rows[:, 0])
            other = dataclasses.replace(changed, index=jnp.asarray(chosen))
            alone = trained(hush.fedavg(steps=2, lr=0.3, batch=4), other, [hush.execution.lanes.Lane(lane, {})])
            np.testing.assert_allclose(found[lane], alone.models[0], atol=1e-6)
        offsets, sizes = np.asarray(unequal.offsets), np.asarray(unequal.population.sizes)
        places = np.asarray(swaps.places)
        assert ((offsets[who] <= places) & (places < offsets[who] + sizes[who])).all()

    def test_the_two_of_a_place_differ_by_their_label_alone(self, unequal):
        changed, swaps, _ = with_alternatives(unequal, 20, 2)
        x, y, (out, inside) = np.asarray(changed.train.x), np.asarray(changed.train.y), np.asarray(swaps.rows).T
        assert (x[out] == x[inside]).all()
        assert (y[out] != y[inside]).all()
        assert np.isin(x[out], x[:40]).all()  # numbers of others

    def test_coins_are_fair_and_of_their_lane(self):
        """Of 10,000 coins, within 4 deviations: fails once in 15,000 seeds."""
        swaps = Swaps(jnp.arange(10_000), jnp.zeros((10_000, 2), jnp.int32), 1)
        first, second = np.asarray(swaps.coins(0)), np.asarray(swaps.coins(1))
        for share in (first.mean(), second.mean(), (first == second).mean()):
            assert abs(share - 0.5) < 4 * 0.005


def test_phases_in_turn_are_planted_each(unequal):
    scaffolded = hush.feddane(steps=2, lr=0.1, mu=0.1)
    made = planted(scaffolded, Masks(1))
    lanes = lanes_of(made, [0, 3])
    assert len(lanes[1].settings) == len(scaffolded.phases)
    assert np.isfinite(trained(made, unequal, lanes, rounds=1).models).all()


@pytest.mark.parametrize("adversary", ["sum", "messages", "every model"])
def test_who_looks_on_changes_nothing(unequal, adversary):
    algorithm = hush.dp_fedavg(3, 7, clip=0.5, noise_multiplier=1.0, steps=2, lr=0.1)
    looked_at = trained(seen_by(algorithm, adversary), unequal).models
    np.testing.assert_allclose(looked_at, trained(algorithm, unequal).models, atol=1e-6)


def test_losses_are_those_of_one_example_after_the_other(unequal):
    models = np.random.default_rng(0).normal(size=(2, 18)).astype(np.float32)
    found = losses(unequal, unequal.train, np.array([3, 1]), models)
    for lane in (0, 1):
        for place, row in enumerate((3, 1)):
            inputs, target = unequal.train[row]
            logits = unequal.model.apply(unequal.client(0).unravel(models[lane]), inputs[None])[0]
            expected = float(-jax.nn.log_softmax(logits)[target])
            np.testing.assert_allclose(found[lane, place], expected, rtol=1e-5)
