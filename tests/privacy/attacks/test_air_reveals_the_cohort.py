"""Over the air with unequal gains: the noise in the model shows who took part, so that sampling hides nobody.

The server divides what it receives by what it makes of those who send. Its noise, divided too, is quiet in rounds of a
loud client and loud in the others: to look at the model's noise is to see the cohort.
"""

from math import exp, log

import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian

import hush
from hush.channel import Constant, FullPower, PerClient
from hush.cohort import Uniform
from hush.core.contract import Draw, Statistics
from hush.core.keys import root
from hush.core.problem import Population
from hush.privacy import Subset, describe
from hush.privacy.accounting import delta_at

CLIENTS, DELTA = 20, 1e-5
POPULATION = Population(np.full(CLIENTS, 10))
LOUD = jnp.ones(CLIENTS).at[7].set(10.0)  # client 7 at +20 dB


def algorithm(gains):
    return hush.over_the_air(
        1, rule=FullPower(), fading=PerClient(Constant(gains)), decibel=0.0, noise_variance=400.0, bound=1.0
    )


def noise_of_a_round_with(made, client):
    """The standard deviation of the noise that a round of this client alone leaves in the model."""
    draw = Draw(jnp.array([client]), jnp.ones(1), jnp.array([True]), jnp.float32(1))
    return float(made.channel(root(0), draw, 0, Statistics()).noise)


def truth(made):
    """ε of one round for who sees whether the client took part: δ(ε) = γ · δ of the Gaussian, a closed form."""
    release = describe(made, POPULATION, 1, trust="air").first.of(0)[0][0]
    return get_epsilon_gaussian(release.noise_multiplier, DELTA * CLIENTS), release


def test_the_noise_of_the_model_tells_who_took_part():
    made = algorithm(LOUD)
    levels = [noise_of_a_round_with(made, client) for client in range(CLIENTS)]
    # A thousand numbers of the model tell a standard deviation to within 10 %, and these are ten times apart.
    assert levels[7] == pytest.approx(2.0)
    assert min(levels[:7] + levels[8:]) == pytest.approx(20.0)


def test_amplification_would_be_a_false_claim():
    """What a subset of one in twenty is worth for a Gaussian: ln(1 + γ(e^ε − 1)), Balle, Barthe and Gaboardi 2018."""
    true, _ = truth(algorithm(LOUD))
    assert log(1 + (exp(true) - 1) / CLIENTS) < 0.8 * true, "otherwise this setting shows nothing"


@pytest.mark.parametrize("trust", ["air", "secret-air"])
def test_nothing_is_credited_to_sampling(trust):
    made = algorithm(LOUD)
    true, release = truth(made)
    description = describe(made, POPULATION, 1, trust=trust)
    assert description.first.of(0)[0][0].sampling.rate == 1
    assert description.per_client  # who takes part is seen: each client pays for its own rounds
    claimed = description.epsilons(1, np.ones((1, CLIENTS), int), DELTA).max()
    assert claimed >= true
    # And it is the truth for a client that took part, at its own δ.
    assert delta_at({release: 1}, claimed) == pytest.approx(DELTA, rel=1e-3)


def test_clients_that_arrive_alike_may_hide_in_a_secret_cohort():
    made = algorithm(jnp.full(CLIENTS, 3.0))
    assert len({noise_of_a_round_with(made, client) for client in range(CLIENTS)}) == 1
    hidden, seen = (describe(made, POPULATION, 4, trust=trust) for trust in ("secret-air", "air"))
    assert hidden.first.of(0)[0][0].sampling == Subset(1, CLIENTS)
    assert seen.first.of(0)[0][0].sampling.rate == 1
    assert hidden.spent((1,), 10, DELTA).epsilon < seen.spent((1,), 10, DELTA).epsilon


def test_a_louder_channel_is_no_secret_whatever_the_power_says():
    """Equal gains and unequal powers are the same thing."""
    made = hush.over_the_air(
        1,
        rule=FullPower(),
        fading=Constant(1.0),
        decibel=tuple([20.0] + [0.0] * (CLIENTS - 1)),
        noise_variance=400.0,
        bound=1.0,
    )
    assert isinstance(made.cohort, Uniform)
    assert describe(made, POPULATION, 2, trust="secret-air").first.of(0)[0][0].sampling.rate == 1
