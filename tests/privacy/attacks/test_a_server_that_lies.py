"""A server that is the adversary does not keep to the algorithm; a device that believes it has no guarantee.

Round 0 again, where steps are large and Langevin noise hides little; a clipping bound of 1e-37; a model so large that
rounding carries updates further than noise covers; more rounds than an ε pays for. The guard refuses each, before
anything is computed, and what it has admitted stays spent.
"""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.cohort import Uniform
from hush.core.grid import Grid
from hush.core.keys import root
from hush.core.problem import Population
from hush.core.round import unpack
from hush.local import ClippedPerExample, ClippedToBroadcast, Full, LocalSGD, Perturbed
from hush.network import Guard, Refused, device_step
from hush.privacy import NoGuarantee, describe
from hush.server import AdaptingClip
from hush.uplink import Clip, Gaussian, GridGaussian

D, CLIENTS, ROUNDS = 6, 4, 20
PROBLEM = hush.tasks.logistic_regression(CLIENTS, 30, dimension=D)
SIZE = PROBLEM.population.largest
LOCAL = LocalSGD(lr=0.1, steps=2)
LOUD = hush.Algorithm(Uniform(2), LOCAL, (GridGaussian(1.0, 8.0),))
BY_STEP = hush.Algorithm(Uniform(2), replace(LOCAL, batches=Full(), oracle=ClippedPerExample(1.0, 4.0, grid=Grid())))
ADAPTIVE = hush.Algorithm(
    Uniform(2), ClippedToBroadcast(LOCAL), (GridGaussian(1.0, 8.0),), server=AdaptingClip(initial=1.0)
)


def guard(algorithm=LOUD, epsilon=8.0, **settings):
    settings = {"dimension": D, "rounds": ROUNDS, "delta": 1e-5, "epsilon": epsilon} | settings
    return Guard(algorithm, PROBLEM.population, 1, **settings)


def told(number, **more):
    return {"round": jnp.int32(number), "model": jnp.zeros(D)} | more


def step(watchful, message, phase=LOUD):
    return device_step(watchful, message, hush.init_client(phase, jnp.zeros(D)), PROBLEM.client(1))


def test_a_round_that_comes_back_lowers_langevin_noise():
    """What a believing client would lose: FA-LD's multiplier in a late round against that of the first."""
    schedule = hush.schedules.InverseTime(1e-3, 2.0)
    made = hush.fa_ld(steps=4, lr=schedule, batch=5, clip=2.0)
    late = replace(made, local=replace(made.local, lr=float(schedule(jnp.asarray(4 * 19)))))
    first, last = (describe(each, PROBLEM, 1).first.of(SIZE)[0][0].noise_multiplier for each in (made, late))
    assert last > 3 * first


def test_rounds_go_forward_and_no_further_than_was_agreed():
    watchful = guard()
    step(watchful, told(3))
    for number in (3, 2, 0, ROUNDS, -1):
        with pytest.raises(Refused, match=r"rounds go forward|rounds were agreed to"):
            step(watchful, told(number))
    step(watchful, told(4))
    assert watchful.participations == (2,)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (told(0, model=jnp.full(D, 1e30)), "model must be numbers from -10000 to 10000, found 1e\\+30"),
        (told(0, model=jnp.full(D, jnp.nan)), "model must be numbers from"),
        (told(0, model=jnp.zeros(D + 1)), "model must have 6 numbers, found shape"),
        (told(0, model=np.zeros(D)), "model must be an array of 32-bit floats"),
        (told(0, extra=jnp.zeros(1)), "the server must tell"),
        ({"round": jnp.int32(0)}, "the server must tell"),
        (told(0) | {"round": 0.5}, "must be one whole number"),
        (told(0) | {"round": jnp.arange(2)}, "must be one whole number"),
    ],
)
def test_what_cannot_be_right_is_refused_and_costs_nothing(message, reason):
    watchful = guard()
    with pytest.raises(Refused, match=reason):
        step(watchful, message)
    assert watchful.participations == (0,)
    assert watchful.spent == 0


@pytest.mark.parametrize("clip", [1e-37, 0.0, -1.0, 1e9, np.nan])
def test_a_bound_outside_the_announced_range_is_refused(clip):
    watchful = guard(ADAPTIVE)
    with pytest.raises(Refused, match=r"clip must be numbers from 0\.001 to 1000"):
        watchful.admit(told(0, clip=jnp.full(1, clip, jnp.float32)))
    watchful.admit(told(0, clip=jnp.full(1, 0.5, jnp.float32)))


def test_a_device_stops_at_its_own_epsilon():
    limit = describe(LOUD, PROBLEM, ROUNDS, trust="local").spent((3,), SIZE, 1e-5).epsilon
    watchful = guard(epsilon=limit)
    for number in range(3):
        step(watchful, told(number))
    assert watchful.spent == limit
    with pytest.raises(Refused, match="one more round would spend ε"):
        step(watchful, told(3))
    assert watchful.participations == (3,)


def test_what_was_admitted_stays_spent_whatever_happens(tmp_path):
    """A crash after the ledger was written, a new process, another mechanism, a damaged file."""
    ledger = tmp_path / "spent.json"
    guard(ledger=ledger).admit(told(5))
    again = guard(ledger=ledger)
    assert again.participations == (1,)
    with pytest.raises(Refused, match="rounds go forward: round 5"):
        again.admit(told(5))
    with pytest.raises(Refused, match="ledger of another mechanism"):
        guard(hush.Algorithm(Uniform(2), LOCAL, (GridGaussian(1.0, 80.0),)), ledger=ledger)
    ledger.write_text(json.dumps({"taken": [0]}))
    with pytest.raises(Refused, match="what was spent is not known"):
        guard(ledger=ledger)


def test_two_processes_of_one_device_spend_together(tmp_path):
    """Each believes what the file says now, and not what it said when it began."""
    first, second = (guard(ledger=tmp_path / "spent.json") for _ in range(2))
    first.admit(told(0))
    with pytest.raises(Refused, match="rounds go forward: round 0"):
        second.admit(told(0))
    second.admit(told(1))
    first.admit(told(2))
    assert first.participations == (3,)


def test_a_ledger_from_an_older_copy_takes_nothing_back(tmp_path):
    ledger = tmp_path / "spent.json"
    watchful = guard(ledger=ledger)
    watchful.admit(told(0))
    older = ledger.read_text()
    watchful.admit(told(1))
    ledger.write_text(older)
    watchful.admit(told(2))
    assert guard(ledger=ledger).participations == (3,)


def test_a_full_disk_admits_nothing(tmp_path, monkeypatch):
    watchful = guard(ledger=tmp_path / "spent.json")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hush.network.guard.atomically", full)
    with pytest.raises(OSError, match="No space left"):
        step(watchful, told(0))
    assert watchful.participations == (0,)


@pytest.mark.parametrize(
    ("algorithm", "kind", "reason"),
    [
        (hush.Algorithm(Uniform(2), LOCAL, (Clip(1.0), Gaussian(8.0))), ValueError, "draws its noise in floats"),
        (hush.private_fedpaq(2, steps=1, batch=None, noise_multiplier=4.0), ValueError, "draws its noise in floats"),
        (hush.fa_ld(steps=2, lr=1e-3, batch=5, clip=1.0), ValueError, "draws its noise in floats"),
        (hush.fedavg(2, steps=1), NoGuarantee, "no privacy guarantee"),
        (hush.dp_fedavg(2, CLIENTS, clip=1.0, noise_multiplier=1.0), NoGuarantee, "each client must add noise"),
    ],
)
def test_a_device_does_not_run_what_does_not_protect_it(algorithm, kind, reason):
    with pytest.raises(kind, match=reason):
        guard(algorithm)


@pytest.mark.parametrize("algorithm", [LOUD, BY_STEP], ids=["message", "steps"])
def test_the_noise_is_the_systems_and_on_a_grid(algorithm):
    """Two devices with the same data, told the same, send different messages."""
    state = hush.init_client(algorithm, jnp.zeros(D))
    replies = [device_step(guard(algorithm), told(0), state, PROBLEM.client(1))[0] for _ in range(2)]
    sent = [unpack(algorithm, reply, jnp.zeros(D))["update"] for reply in replies]
    assert not np.array_equal(*map(np.asarray, sent))
    if algorithm is LOUD:
        spacing = 2.0 ** (3 - 20)  # of noise of 8, in 2^20 steps
        assert all((np.asarray(each, np.float64) / spacing % 1 == 0).all() for each in sent)


def test_a_saturated_model_does_not_carry_an_update_further_than_its_noise_covers():
    """Beside 12,000 floats are 2^-10 apart: a step of 0.0005 is rounded to twice that, in every number and step."""
    d, steps = 400, 5
    inner = LocalSGD(lr=0.01, steps=steps, batches=Full(), oracle=ClippedPerExample(1.0))
    rule, believed = Perturbed(inner, 1.0), 2 * 0.01 * (steps - 1 + 1)
    message = {"model": jnp.full(d, 1.2e4), "round": jnp.int32(0)}
    neighbours = [hush.tasks.quadratic(np.full((1, 1, d), sign), np.full((1, 1), 1e12)) for sign in (1.0, -1.0)]
    ends = [np.asarray(inner(root(0), message, {}, each.client(0))[0]["update"], float) for each in neighbours]
    moved = np.linalg.norm(ends[0] - ends[1])
    assert moved > 1.9 * believed
    assert moved <= float(rule.sensitivity(message, 1))
    ordinary = {"model": jnp.ones(d), "round": jnp.int32(0)}
    assert float(rule.sensitivity(ordinary, 1)) == pytest.approx(believed, rel=0.01)


def test_everything_a_population_tells_must_fit():
    with pytest.raises(ValueError, match="client must be a whole number from 0 to 3"):
        Guard(LOUD, Population(np.full(4, 30)), 4, dimension=D, rounds=1, epsilon=1.0, delta=1e-5)
    with pytest.raises(ValueError, match="the least bound and the largest"):
        guard(clip=(10.0, 1.0))
    with pytest.raises(ValueError, match="a problem knows its own"):
        describe(LOUD, PROBLEM, 1, dimension=D)
