"""Noise of all clients counted together, of clients that remember their own: later sums tell of it.

A round's sum hides a client in the noise of all. FedDyn and SCAFFOLD put what was sent, noise and all, into what the
client does next, so that the sums of later rounds, without that client, show the noise of the others. Taken off the
first sum this leaves the client in its own noise alone.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.core import round as rounds
from hush.privacy.clients import remembers_sent
from hush.privacy.releases import NoGuarantee
from hush.uplink import Clip, Gaussian

pytestmark = pytest.mark.slow

CLIENTS, D, ALPHA = 20, 3, 0.5
PROBLEM = hush.tasks.logistic_regression(CLIENTS, 30, dimension=D)
SUMMED = hush.secure_dp_fedavg(CLIENTS, CLIENTS, clip=1.0, dimension=D, noise_multiplier=2.0, bits=20, steps=1, lr=0.1)
RULES = {
    "FedDyn": hush.feddyn(CLIENTS, alpha=ALPHA, steps=1, lr=0.1),
    "SCAFFOLD": hush.scaffold(CLIENTS, steps=1, lr=0.1),
}


def in_a_sum(rule, stages=SUMMED.uplink, channel=SUMMED.channel):
    return hush.Algorithm(SUMMED.cohort, rule.local, stages, channel, rule.server)


def described(algorithm, trust=None):
    return hush.privacy.describe(algorithm, hush.privacy.EqualClients(CLIENTS), 5, trust=trust, dimension=D)


@pytest.mark.parametrize("rule", RULES)
def test_it_has_no_guarantee_in_a_sum(rule):
    with pytest.raises(NoGuarantee, match="clients remember what they sent, their own noise in it"):
        described(in_a_sum(RULES[rule]))
    noisy = (Clip(1.0), Gaussian(1.0))
    for trust in ("assumed-sum", "secret-sum"):
        with pytest.raises(NoGuarantee, match="clients remember what they sent, their own noise in it"):
            described(in_a_sum(RULES[rule], noisy, hush.channel.Digital()), trust)


@pytest.mark.parametrize("rule", RULES)
def test_it_has_one_where_every_message_is_seen_or_the_server_adds_the_noise(rule):
    """Then what is remembered is seen already, or has no noise in it."""
    assert described(in_a_sum(RULES[rule]), "local").first.trust == "local"
    plain = hush.channel.Noisy(1.0)
    assert described(in_a_sum(RULES[rule], (Clip(1.0),), plain)).first.trust == "server"


def test_rules_that_remember_nothing_they_sent_have_theirs():
    assert described(SUMMED).first.trust == "sum"
    weighted = replace(SUMMED, local=hush.local.Weighted(SUMMED.local))
    assert described(weighted).first.trust == "sum"
    own = hush.local.LocalSGD(0.1, steps=1, direction=(hush.local.Proximal(0.5),))
    assert described(replace(SUMMED, local=hush.local.Beside(SUMMED.local, own))).first.trust == "sum"
    assert remembers_sent(hush.local.Beside(RULES["FedDyn"].local, own))
    assert remembers_sent(RULES["SCAFFOLD"].local)


def test_later_sums_tell_of_the_noise_of_an_earlier_one():
    """The attack, by FedDyn's own memory: after round 0 the others' part of its sum is in what they remember.

    Client 0 says m in round 0 and is in no later round. The others remember −α·(what they sent); the server, which
    sees sums, knows Σ_k≠0 of it as soon as a later sum shows it. What is left of the first sum is m and the noise of
    client 0 by itself, where ε counted that of all.
    """
    algorithm = in_a_sum(RULES["FedDyn"])
    told = {"round": jnp.int32(0), "common": hush.keys.root(1), "model": jnp.zeros(D)}
    state = hush.init_client(algorithm, jnp.zeros(D))
    made = [
        rounds.answer(algorithm, hush.keys.at(hush.keys.root(2), k), told, state, PROBLEM.client(k))
        for k in range(CLIENTS)
    ]
    total = sum(np.asarray(each.sent["update"], float) for each in made)
    remembered = sum(np.asarray(each.state["local"]["gradient"], float) for each in made[1:])
    left = total + remembered / ALPHA
    np.testing.assert_allclose(left, np.asarray(made[0].sent["update"]), atol=1e-4)
    own, all_of_them = (np.sqrt(count) * algorithm.uplink[0].noise.std for count in (1, CLIENTS))
    assert own < all_of_them / 4
