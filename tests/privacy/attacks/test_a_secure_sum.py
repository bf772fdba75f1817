"""An ε that rests on a sum: asked for too often, swept, resumed as another one, or beside a phase that is no sum."""

from dataclasses import replace
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.channel import SecureSum
from hush.core.problem import Population
from hush.network import Guard
from hush.network.refusals import Refused
from hush.privacy import NoGuarantee, describe
from hush.uplink import DiscreteGaussian, GridGaussian
from hush.uplink.modular import longest

pytestmark = pytest.mark.slow

DELTA, ROUNDS = 1e-3, 10
POPULATION = Population(np.full(20, 30))
IN_A_SUM = hush.secure_dp_fedavg(
    8, 20, clip=1.0, dimension=6, noise_multiplier=6.0, bits=16, draw="cyclic", steps=1, lr=0.1
)
OF_ITS_OWN = replace(
    hush.fedavg(steps=1, lr=0.1), cohort=hush.cohort.Cyclic(4, "equal"), uplink=(GridGaussian(1.0, 30.0),)
)


@pytest.mark.parametrize(("algorithm", "trust", "turns"), [(IN_A_SUM, "sum", 5), (OF_ITS_OWN, "local", 2)])
def test_a_server_that_asks_a_client_out_of_turn(algorithm, trust, turns):
    """ε is for the rounds that come in turn; the device counts its own, and stops."""
    described = describe(algorithm, POPULATION, ROUNDS, trust=trust, dimension=6)
    assert described.most_times == [turns]
    agreed = {"dimension": 6, "rounds": ROUNDS, "epsilon": 1.0001 * described.most(DELTA), "delta": DELTA}
    guard = Guard(algorithm, POPULATION, 3, **agreed, trust=trust)
    for number in range(turns):
        guard.admit({"model": jnp.zeros(6), "round": jnp.int32(number)}, 0)
    with pytest.raises(Refused, match="one more round would spend"):
        guard.admit({"model": jnp.zeros(6), "round": jnp.int32(turns)}, 0)


@pytest.fixture(scope="module")
def problem():
    return hush.tasks.logistic_regression(20, 5, dimension=6)


@pytest.mark.filterwarnings("ignore:.*delta|.*δ")
def test_a_bound_that_is_swept_is_accounted_at_each_point(problem):
    """A longer message in the same noise: each point has the ε of the algorithm made alone."""
    found = hush.run(IN_A_SUM, problem, 2, sweep={"uplink.0.bound": [1.0, 3.0]}, delta=DELTA, progress=False).records
    last = found[found["round"] == 2].set_index("uplink.0.bound")["epsilon"]
    for bound in (1.0, 3.0):
        alone = replace(IN_A_SUM, uplink=(replace(IN_A_SUM.uplink[0], bound=bound),))
        # Within two rounds of eight of twenty nobody comes twice.
        assert last[bound] == pytest.approx(describe(alone, problem, 1).most(DELTA), rel=1e-6)
    assert last[3.0] > 2 * last[1.0]


@pytest.mark.filterwarnings("ignore:.*delta|.*δ")
def test_a_run_is_not_resumed_as_another_sum(problem, tmp_path):
    folder = tmp_path / "run"
    hush.run(IN_A_SUM, problem, 1, delta=DELTA, folder=folder, progress=False)
    stage = IN_A_SUM.uplink[0]
    others = {
        "channel.colluding": replace(IN_A_SUM, channel=SecureSum(6, 0.5)),
        "channel.threshold": replace(IN_A_SUM, channel=SecureSum(8)),
        "uplink.0.noise": replace(IN_A_SUM, uplink=(replace(stage, noise=DiscreteGaussian(stage.noise.std)),)),
    }
    for name, other in others.items():
        with pytest.raises(ValueError, match=f"different are {name}"):
            hush.run(other, problem, 2, delta=DELTA, folder=folder, resume=True, progress=False)


def test_a_phase_that_is_no_sum_leaves_no_trust_in_one():
    plain = hush.dp_fedavg(8, 20, clip=1.0, noise_multiplier=3.0, steps=1, noise="client", draw="uniform")
    both = hush.InTurn((IN_A_SUM, plain))
    for trust in ("sum", "assumed-sum", "server"):
        with pytest.raises(NoGuarantee):
            describe(both, POPULATION, ROUNDS, trust=trust, dimension=6)


def test_a_threshold_above_the_cohort_is_said_to_be_one():
    with pytest.raises(ValueError, match="threshold must be a whole number from 1 to 8, found 9"):
        hush.secure_dp_fedavg(8, 20, clip=1.0, dimension=6, noise_multiplier=6.0, threshold=9)


def masses_of_sum(noise, clients):
    """The law of so many clients' noise together, by convolution of what a client draws by; 10^-10 of it is cut off."""
    half = noise.weights(int(15 * noise.std))
    one = np.array([float(Fraction(each, half[0])) for each in [*half[:0:-1], *half]])
    whole = one = one / one.sum()
    for _ in range(clients - 1):
        whole = np.convolve(whole, one)
    tail = np.searchsorted(np.cumsum(whole), 5e-11)
    return whole[tail : len(whole) - tail]


def exact_delta(masses, shifts, epsilon):
    """Σ max(P − e^ε Q, 0) over all outcomes of independent numbers, each of which a neighbour moves by its shift."""
    edge = np.zeros(max(map(abs, shifts)))
    there, moved = np.ones(1), np.ones(1)
    for shift in shifts:
        padded = np.concatenate([edge, masses, edge])
        there = np.multiply.outer(there, padded).ravel()
        moved = np.multiply.outer(moved, np.roll(padded, shift)).ravel()
    return np.maximum(there - np.exp(epsilon) * moved, 0).sum()


@pytest.mark.parametrize("noise", ["skellam", "discrete_gaussian"])
@pytest.mark.parametrize(("dimension", "rounds"), [(1, 1), (1, 3), (2, 1), (3, 1)])
def test_the_printed_epsilon_is_above_that_of_the_worst_pair_of_messages(noise, dimension, rounds):
    """Of all whole numbers that a client may send and all that another may in its place, with the noise of three.

    Five clients, of whom four must stay and one may collude; rounding and all. By exact sums over what is opened.
    """
    sizes = {"clip": 1.0, "dimension": dimension, "bits": 8, "noise_multiplier": 1.5, "noise": noise, "steps": 1}
    algorithm = hush.secure_dp_fedavg(5, 5, threshold=4, colluding=0.2, **sizes)
    stage = replace(algorithm.uplink[0], scale=3.0)  # coarse, so that all that may be sent can be tried
    stage = replace(stage, noise=type(stage.noise)(1.3 * longest(3.0, dimension)))
    algorithm = replace(algorithm, uplink=(stage,))
    epsilon = describe(algorithm, Population(np.full(5, 30)), rounds, dimension=dimension).most(DELTA)
    most = int(longest(3.0, dimension))
    grid = np.stack(np.meshgrid(*[np.arange(-most, most + 1)] * dimension), -1).reshape(-1, dimension)
    sent = grid[np.sum(grid**2, axis=1) <= longest(3.0, dimension) ** 2]
    apart = {tuple(sorted(abs(one - other))) for one in sent for other in sent}
    masses = masses_of_sum(stage.noise, 3)
    worst = max(apart, key=lambda each: sum(np.square(each)))
    furthest = [each for each in apart if sum(np.square(each)) >= 0.9 * sum(np.square(worst))]
    assert max(exact_delta(masses, each * rounds, epsilon) for each in furthest) <= DELTA
    # And not by much more than Rényi divergences lose: with two thirds of that ε it would be too small.
    assert max(exact_delta(masses, each * rounds, 2 / 3 * epsilon) for each in furthest) > DELTA


@pytest.mark.parametrize("noise", ["skellam", "discrete_gaussian"])
def test_noise_for_a_smaller_model_is_accounted_for_the_model_that_is_trained(problem, noise):
    """It covers less of what rounding adds: what is printed is beyond the ε that was asked for."""
    target = {"epsilon": 3.0, "delta": DELTA, "rounds": ROUNDS, "draw": "cyclic", "bits": 8}
    algorithm = hush.secure_dp_fedavg(8, 20, clip=1.0, dimension=1, noise=noise, steps=1, **target)
    assert describe(algorithm, POPULATION, ROUNDS, dimension=1).most(DELTA) <= 3.0
    assert describe(algorithm, problem, ROUNDS).most(DELTA) > 3.01
