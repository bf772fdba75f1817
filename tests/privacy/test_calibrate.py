"""From an ε to an algorithm: the noise that describing finds is the closed form of each proof, and never below it."""

from dataclasses import replace
from math import ceil, sqrt

import numpy as np
import pytest

import hush
from hush.channel import Noisy
from hush.cohort import Everyone
from hush.core.problem import Population
from hush.local import ClippedPerExample, Full, LocalSGD
from hush.privacy import (
    EqualClients,
    NoGuarantee,
    Poisson,
    Subset,
    Unsampled,
    calibrate,
    describe,
    noise_multiplier_for,
)
from hush.privacy.calibration import OutOfReach
from hush.server import CorrelatedNoise
from hush.uplink import Clip

EPSILON, DELTA, ROUNDS = 2.0, 1e-5, 30
CLIENTS, POPULATION, APART = 5, 23, 23 // 5
ASKED = {"epsilon": EPSILON, "delta": DELTA, "rounds": ROUNDS, "steps": 1}


def once(rounds, relation="replace", sampling=None, law="gaussian"):
    return noise_multiplier_for(EPSILON, DELTA, rounds, relation, sampling or Unsampled(), law=law)


def on_the_sum(made):
    return float(made.channel.std) * CLIENTS / 0.5


def at_the_clients(made):
    return float(made.uplink[-1].std) * sqrt(CLIENTS) / 0.5


# How an algorithm is asked for, its multiplier read off the pieces, and the closed form: a client that is replaced
# moves the sum by twice the bound, and in turns comes once in ⌊N/P⌋ rounds.
CLIENT_LEVEL = {
    "poisson": ({}, on_the_sum, lambda: once(ROUNDS, "add-or-remove", Poisson(CLIENTS / POPULATION))),
    "uniform": ({"draw": "uniform"}, on_the_sum, lambda: 2 * once(ROUNDS, sampling=Subset(CLIENTS, POPULATION))),
    "cyclic": ({"draw": "cyclic"}, on_the_sum, lambda: 2 * once(ceil(ROUNDS / APART))),
    "models": ({"draw": "cyclic", "clipping": "model"}, on_the_sum, lambda: 2 * once(ceil(ROUNDS / APART))),
    "coded": ({"draw": "uniform", "levels": 4}, on_the_sum, lambda: 2 * once(ROUNDS, sampling=Subset(5, 23))),
    "client noise": ({"draw": "uniform", "noise": "client"}, at_the_clients, lambda: 2 * once(ROUNDS)),
    "client noise in turn": (
        {"draw": "cyclic", "noise": "client"},
        at_the_clients,
        lambda: 2 * once(ceil(ROUNDS / APART)),
    ),
    "bands": (
        {"draw": "cyclic", "bands": 3},
        lambda made: float(made.server.std) * CLIENTS / 0.5,
        lambda: 2 * once(1) * CorrelatedNoise(1.0, ROUNDS, 3).sensitivity(APART),
    ),
    "adaptive": (
        {"adaptive": True},
        lambda made: on_the_sum(made) * 0.5 / sqrt(1 + 0.05**2),
        lambda: once(ROUNDS, "add-or-remove", Poisson(CLIENTS / POPULATION)),
    ),
}


def safe_and_tight(found, closed_form):
    """Never below what the proof asks for, but for rounding, and no more than a search's tolerance above."""
    assert closed_form * (1 - 2e-4) < found < closed_form * (1 + 1e-3)


@pytest.mark.parametrize("name", CLIENT_LEVEL)
def test_client_level(name):
    kind, read, closed_form = CLIENT_LEVEL[name]
    made = hush.dp_fedavg(CLIENTS, POPULATION, clip=0.5, **kind, **ASKED)
    safe_and_tight(read(made), closed_form())
    trust = "assumed-sum" if kind.get("noise") == "client" else None
    for clients in (EqualClients(POPULATION), Population(np.arange(1, POPULATION + 1))):  # what they hold is all one
        found = describe(made, clients, ROUNDS, unit="client", trust=trust).most(DELTA)
        assert 0.999 * EPSILON < found <= EPSILON


EXAMPLES, USES = 71, 6
EXAMPLE_LEVEL = {
    "step": ({"batch": 8}, lambda law: once(3 * USES, sampling=Subset(8, EXAMPLES), law=law)),
    "step, all": ({"batch": None}, lambda law: once(3 * USES, law=law)),
    "output": (
        {"batch": 8, "perturbation": "output"},
        lambda law: once(USES, sampling=Subset(24, EXAMPLES), law=law),
    ),
    "output, all": ({"batch": None, "perturbation": "output"}, lambda law: once(USES, law=law)),
}


@pytest.mark.parametrize("dimension", [None, 650])
@pytest.mark.parametrize("name", EXAMPLE_LEVEL)
def test_example_level(name, dimension):
    kind, closed_form = EXAMPLE_LEVEL[name]
    on_grid = {} if dimension is None else {"grid_bits": 20, "dimension": dimension}
    asked = {"epsilon": EPSILON, "delta": DELTA, "participations": USES, "examples": EXAMPLES}
    made = hush.private_fedpaq(5, steps=3, weight_decay=0.01, **kind, **on_grid, **asked)
    local = made.local
    multiplier = local.noise_multiplier if "perturbation" in kind else local.oracle.noise_multiplier
    wanted = closed_form("gaussian" if dimension is None else "discrete gaussian")
    # On a grid z/(1 + z√d/s) counts, s = 2^19 steps at least.
    safe_and_tight(multiplier, wanted if dimension is None else wanted / (1 - wanted * sqrt(dimension) / 2**19))
    described = describe(made, Population(np.full(9, EXAMPLES)), 4 * USES, dimension=dimension)
    assert 0.999 * EPSILON < described.spent((USES,), EXAMPLES, DELTA).epsilon <= EPSILON


def test_everything_that_clients_hold_counts():
    """The worst of clients of different sizes, each in every round; of a problem, all holders of an example."""

    def made(z):
        return hush.Algorithm(
            Everyone(), LocalSGD(0.1, steps=1, batches=Full(), oracle=ClippedPerExample(1.0, noise_multiplier=z))
        )

    found = calibrate(made, Population(np.array([3, 30])), ROUNDS, EPSILON, DELTA)
    safe_and_tight(found, once(ROUNDS))
    shared = hush.tasks.digits(clients=4, examples_per_client=600, overlap=True)
    holders = describe(made(1.0), shared, 1).holders
    assert holders > 1
    safe_and_tight(calibrate(made, shared, ROUNDS, EPSILON, DELTA), once(holders * ROUNDS))


def test_what_has_no_proof_is_not_calibrated():
    asked = ASKED | {"clip": 0.5}
    with pytest.raises(NoGuarantee, match="something comes between the clients' noise and the sum"):
        hush.dp_fedavg(CLIENTS, POPULATION, draw="uniform", noise="client", levels=4, **asked)
    with pytest.raises(NoGuarantee, match="number of clients of a round is random"):
        hush.dp_fedavg(CLIENTS, POPULATION, noise="client", **asked)
    unclipped = hush.fedavg(clients=CLIENTS, steps=1)
    with pytest.raises(NoGuarantee, match="nothing clips what a client sends"):
        calibrate(lambda z: replace(unclipped, channel=Noisy(z)), EqualClients(20), 5, 1.0, DELTA, unit="client")


def test_the_range_is_kept_to():
    def made(z):
        return replace(hush.fedavg(CLIENTS, steps=1, weighting="equal"), uplink=(Clip(1.0),), channel=Noisy(z))

    def ask(**more):
        return calibrate(made, EqualClients(POPULATION), ROUNDS, EPSILON, DELTA, unit="client", **more)

    least = ask()
    with pytest.raises(OutOfReach, match="no noise multiplier up to"):
        ask(high=0.9 * least)
    assert ask(low=0.9 * least, high=1.1 * least) == pytest.approx(least, rel=2e-4)
    assert ask(low=2 * least) == 2 * least
    with pytest.raises(ValueError, match="unknown accountant"):
        ask(accountant="prv")
    with pytest.raises(ValueError, match="high must be a number of at least 2"):
        ask(low=2.0, high=1.0)


def test_few_evaluations_are_made():
    """Each may take a tenth of a second: the search is no plain bisection, of which 1e-4 takes fourteen."""
    asked = []

    def made(z):
        asked.append(z)
        return hush.dp_fedavg(80, 1920, clip=1.0, noise_multiplier=z)

    calibrate(made, EqualClients(1920), 100, 1.5, DELTA, accountant="rdp")
    assert len(asked) < 12
