"""A client that holds more examples than before makes all others weigh less: their messages change with its data.

Weights that clients apply themselves, and noise that follows from them, are made of everybody's number of examples.
A guarantee for "all the data of one client" then takes these numbers for known and unchanged, and has to say so.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.channel import Noisy, SecureSum
from hush.core.flat import dimension
from hush.core.keys import root
from hush.core.plain import Digital
from hush.local import Langevin, LocalSGD, Weighted
from hush.privacy import Release
from hush.privacy.accounting import spent
from hush.privacy.cohorts import SIZES_KNOWN
from hush.uplink import Clip, Gaussian

SIZES = {"clip": 1.0, "dimension": 6, "noise_multiplier": 6.0, "bits": 16, "threshold": 6}
IN_A_SUM = hush.secure_dp_fedavg(8, 8, **SIZES, steps=1, lr=0.02)
PLAIN = LocalSGD(0.1, steps=1)
SAMPLING = LocalSGD(0.1, steps=1, direction=(Langevin(1.0),))
STAGE = IN_A_SUM.uplink
EVERYONE = hush.cohort.Uniform(8, "equal")


def described(local, uplink=STAGE, channel=None):
    algorithm = hush.Algorithm(EVERYONE, local, uplink, channel or SecureSum(6))
    return hush.privacy.describe(algorithm, hush.privacy.EqualClients(8), 3, unit="client", dimension=6)


def test_one_client_s_number_of_examples_is_in_everybody_s_message():
    """What the assumption is for: the first client's message, by how many examples the last one holds."""

    def first_of(last):
        sizes = [10] * 7 + [last]
        draws = np.random.default_rng(0)
        x, clients = draws.normal(size=(sum(sizes), 5)).astype(np.float32), np.repeat(np.arange(8), sizes)
        problem = hush.tasks.arrays(x, (x[:, 0] > 0).astype(np.int32), clients, model="softmax")
        model = jnp.zeros(dimension(problem))
        told = {"model": model, "round": jnp.int32(0)}
        message, _, _ = Weighted(LocalSGD(1.0, steps=1))(root(1), told, {}, problem.client(0))
        return float(jnp.linalg.norm(message["update"]))

    left = first_of(1000) / first_of(10)
    assert left == pytest.approx((8 * 10 / 1070) / (8 * 10 / 80), rel=1e-4)
    # Seven messages as long as the bound fall to that: the sum moves by more than twice the bound, which is counted.
    moved = 7 * (1 - left)
    every = hush.secure_dp_fedavg(8, 8, **SIZES | {"threshold": 8}, colluding=0, steps=1)
    printed = hush.privacy.describe(every, hush.privacy.EqualClients(8), 1, dimension=6).most(1e-5)
    z = 6.0 / moved
    assert 6 < moved < 7
    assert spent({Release(z, "replace"): 1}, 1e-5).epsilon > 3 * printed


@pytest.mark.parametrize(
    ("local", "uplink", "channel"),
    [
        (Weighted(PLAIN), STAGE, None),
        (SAMPLING, STAGE, None),
        (Weighted(PLAIN), (Clip(1.0),), Noisy(0.5, Digital())),
        (Weighted(PLAIN), (Clip(1.0), Gaussian(0.5)), Digital()),
    ],
)
def test_it_is_said_where_messages_follow_from_it(local, uplink, channel):
    assert SIZES_KNOWN in described(local, uplink, channel).first.assumptions


def test_it_is_said_of_rules_that_nobody_knows():
    class Own(LocalSGD):
        pass

    assert SIZES_KNOWN in described(Own(0.1, steps=1)).first.assumptions


def test_it_is_not_said_where_nobody_looks():
    assert SIZES_KNOWN not in described(PLAIN).first.assumptions


def test_a_cohort_that_weighs_by_examples_says_so_in_a_sum_too():
    by_examples = replace(IN_A_SUM, cohort=hush.cohort.Uniform(8, "examples"))
    found = hush.privacy.describe(by_examples, hush.privacy.EqualClients(8), 3, dimension=6).first.assumptions
    assert found.count(SIZES_KNOWN) == 1
