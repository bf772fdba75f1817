"""Two phases with correlated noise on one server state: each takes from the stream what the other counts on.

The noise of a round is z_t minus a part of the stream's earlier z. If the other phase's numbers stand there, that part
is other noise, and what a phase really adds to its sums is not the C⁻¹Z whose protection was worked out.
"""

from dataclasses import replace
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

import hush
from hush.core.keys import root
from hush.core.problem import Population
from hush.privacy import NoGuarantee, describe
from hush.server import AdaptingClip, Add, CorrelatedNoise

ROUNDS, BANDS = 6, 3
RULE = CorrelatedNoise(1.0, ROUNDS, BANDS)
PHASE = replace(hush.dp_fedavg(2, 6, clip=1.0, noise_multiplier=1.0, draw="cyclic"), channel=hush.channel.Digital())


def noise_of(turns):
    """What each of `turns` phases, one after the other on one state, adds in every round: [rounds, turns, d]."""
    state = RULE.init(jnp.zeros(4000)) | {"round": jnp.int32(0)}
    found = []
    for number in range(ROUNDS):
        for turn in range(turns):
            before = state["model"]
            state = state | RULE(root(100 * number + turn), state, {"update": jnp.zeros(4000)}, jnp.float32(1))
            found.append(np.asarray(state["model"] - before))
    return np.array(found).reshape(ROUNDS, turns, -1)


def test_a_phase_that_shares_its_stream_has_other_noise():
    """(C⁻¹)_10 of a phase alone is −c_1/c_0 of the round before; in a shared stream it is the other phase's."""
    alone, shared = noise_of(1)[:, 0], noise_of(2)[:, 0]
    of_round_before = [np.corrcoef(noise[1], noise[0])[0, 1] for noise in (alone, shared)]
    column = np.asarray(RULE.strategy)
    expected = -column[1] / column[0] / np.hypot(1, column[1] / column[0])
    assert of_round_before[0] == pytest.approx(expected, abs=5 / np.sqrt(4000))
    assert abs(of_round_before[1] - expected) > 0.2


def test_two_phases_are_refused_when_they_are_put_together():
    twice = replace(PHASE, server=RULE)
    with pytest.raises(ValueError, match="only one may keep"):
        hush.InTurn((twice, twice))
    with pytest.raises(ValueError, match="only one may keep"):
        hush.InTurn((twice, replace(PHASE, server=AdaptingClip(RULE), local=adaptive())))
    hush.InTurn((twice, replace(PHASE, server=Add())))


def adaptive():
    return hush.dp_fedavg(2, 6, adaptive=True, noise_multiplier=1.0).local


def test_and_by_the_accountant_whatever_let_them_through():
    twice = SimpleNamespace(phases=(replace(PHASE, server=RULE),) * 2)
    with pytest.raises(NoGuarantee, match="more than one rule of correlated noise"):
        describe(twice, Population(np.full(6, 10)), ROUNDS, unit="client")  # type: ignore[arg-type]


def test_one_within_the_other_is_refused():
    with pytest.raises(ValueError, match="adds none itself"):
        CorrelatedNoise(1.0, ROUNDS, BANDS, RULE)


def test_the_inner_rule_cannot_draw_the_noise_again():
    """It was handed the very key that the noise had been drawn from."""
    seen = []

    class Curious(Add):
        def __call__(self, key, state, received, coverage):
            seen.append((key, received["update"]))
            return super().__call__(key, state, received, coverage)

    rule = CorrelatedNoise(1.0, ROUNDS, BANDS, Curious())
    key = root(3)
    rule(key, rule.init(jnp.zeros(500)) | {"round": jnp.int32(0)}, {"update": jnp.zeros(500)}, jnp.float32(1))
    handed, noisy = seen[0]
    again = np.asarray(random.normal(handed, (500,)))
    assert abs(np.corrcoef(again, np.asarray(noisy))[0, 1]) < 5 / np.sqrt(500)
