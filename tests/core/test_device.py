"""An algorithm on a device: the grids draw from the system, and what would draw floats is refused by name."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush import Algorithm, Grid, InTurn, on_device, on_server
from hush.channel import Noisy
from hush.cohort import Everyone
from hush.core.contract import Channel, Stage
from hush.local import ClippedPerExample, ClippedToBroadcast, Gradient, Langevin, LocalSGD, Perturbed, Scaffold, Subset
from hush.privacy.stages import any_function, by_stage
from hush.uplink import QSGD, Clip, Gaussian, GridGaussian

SGD = LocalSGD(lr=0.05, steps=2, batches=Subset(1))
STEPS = replace(SGD, oracle=ClippedPerExample(1.0, 0.5, grid=Grid(10)))
OUTPUT = Perturbed(replace(SGD, oracle=ClippedPerExample(1.0)), 0.5, Grid(10))
MESSAGE = (GridGaussian(1.0, 0.5, Grid(10)),)
CENTRAL = Noisy(0.1, grid=Grid(12))
CASES = {
    "steps": Algorithm(Everyone(), replace(STEPS, steps=1, lr=1.0)),
    "output": Algorithm(Everyone(), OUTPUT),
    "message": Algorithm(Everyone(), SGD, MESSAGE),
}


def spacing(name, data):
    """Of the grid that the message lies on, from the formulas."""
    size = int(data.size)
    stds = {"steps": 0.5 * 2 * 1.0, "output": 0.5 * 2 * 0.05 * 1.0 * (2 - 1 + 1.0), "message": 0.5}
    assert size > 1
    return 2.0 ** (np.ceil(np.log2(stds[name])) - 10)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("compiled", [True, False])
def test_a_device_draws_anew_and_on_the_grid(quadratic, name, compiled):
    """The key is the same: it gives the same batches, and a simulation the same noise, but a device does not."""
    algorithm, model, data = CASES[name], jnp.zeros(3), quadratic.client(0)
    told = hush.broadcast(algorithm, hush.init_server(algorithm, model))

    def sent(algorithm):
        state = hush.init_client(algorithm, model)
        step = lambda key: hush.client_step(algorithm, key, told, state, data)[0]["update"]  # noqa: E731
        step = jax.jit(step) if compiled else step
        return [np.asarray(step(hush.keys.root(0)), float) for _ in range(2)]

    simulated, there = sent(algorithm), sent(on_device(algorithm))
    np.testing.assert_array_equal(*simulated)
    assert (there[0] != there[1]).any()
    for vector in (*simulated, *there):
        steps = vector / spacing(name, data)
        np.testing.assert_array_equal(steps, np.rint(steps))
        assert np.abs(vector).max() > 0


def test_every_grid_of_the_clients_and_nothing_else_changes():
    made = Algorithm(Everyone(), ClippedToBroadcast(STEPS), (*MESSAGE, QSGD(3)), CENTRAL, hush.server.AdaptingClip())
    there = on_device(made)
    system = Grid(10, "system")
    assert there.local.inner.oracle.grid == there.uplink[0].grid == system
    back = replace(there, local=made.local, uplink=made.uplink)
    assert back == made
    assert there.local.inner.oracle == replace(STEPS.oracle, grid=system)
    both = on_device(InTurn((CASES["steps"], CASES["output"])))
    assert [phase.local for phase in both.phases] == [
        replace(CASES["steps"].local, oracle=replace(STEPS.oracle, grid=system)),
        replace(OUTPUT, grid=system),
    ]
    plain = hush.fedavg(steps=1)
    assert on_device(plain) == plain


def test_a_server_changes_the_channel_and_nothing_else():
    made = Algorithm(Everyone(), ClippedToBroadcast(STEPS), MESSAGE, CENTRAL, hush.server.AdaptingClip())
    there = on_server(made)
    assert there == replace(made, channel=replace(CENTRAL, grid=Grid(12, "system")))
    assert on_server(InTurn((made, made))) == InTurn((there, there))
    assert on_server(on_device(made)) == on_device(on_server(made)) == replace(on_device(made), channel=there.channel)
    floats = Algorithm(Everyone(), SGD, (Clip(1.0), Gaussian(1.0)))  # a device's matter
    assert on_server(floats) == floats


class Wrapped(Channel):
    """A user's own channel around another."""

    within: Channel

    def __call__(self, key, draw, number, statistics):
        return self.within(key, draw, number, statistics)


CORRELATED = hush.server.CorrelatedNoise(1.0, 4, 2)


@pytest.mark.parametrize(
    ("channel", "server", "piece"),
    [
        (Noisy(1.0), hush.server.Add(), r"channel \(Noisy\)"),
        (Wrapped(Noisy(1.0)), hush.server.Add(), r"channel\.within \(Noisy\)"),
        (hush.channel.OverTheAir(), hush.server.Add(), r"channel \(OverTheAir\)"),
        (hush.channel.Digital(), CORRELATED, r"server \(CorrelatedNoise\)"),
        (CENTRAL, CORRELATED, r"server \(CorrelatedNoise\)"),
        (hush.channel.Digital(), hush.server.AdaptingClip(CORRELATED), r"server\.inner \(CorrelatedNoise\)"),
    ],
)
def test_a_servers_noise_in_floats_is_refused_by_name(channel, server, piece):
    local = ClippedToBroadcast(SGD) if "below" in server.receives else SGD
    algorithm = Algorithm(Everyone(), local, (Clip(1.0),), channel, server)
    with pytest.raises(ValueError, match=rf"{piece} draws its noise in floats.*Noisy\(std, grid=Grid\(\)\)"):
        on_server(algorithm)
    with pytest.raises(ValueError, match=rf"phases\.1\.{piece}"):
        on_server(InTurn((CASES["message"], algorithm)))
    assert on_device(algorithm) == algorithm


class OwnNoise(Stage):
    """A user's own stage, which says that it draws floats."""

    float_noise = True

    def __call__(self, key, vector, state):
        return vector, state, {}


FLOAT_STEPS = replace(SGD, oracle=ClippedPerExample(1.0, 0.5))
CONTROLLED = replace(FLOAT_STEPS, direction=(hush.local.ControlVariate(),))


@pytest.mark.parametrize(
    ("local", "uplink", "piece"),
    [
        (SGD, (Clip(1.0), Gaussian(1.0)), r"uplink\.1 \(Gaussian\)"),
        (SGD, (*MESSAGE, Gaussian(1.0)), r"uplink\.1 \(Gaussian\)"),
        (FLOAT_STEPS, (), r"local\.oracle \(ClippedPerExample\)"),
        (Gradient(oracle=FLOAT_STEPS.oracle), (), r"local\.oracle \(ClippedPerExample\)"),
        (ClippedToBroadcast(FLOAT_STEPS), (), r"local\.inner\.oracle \(ClippedPerExample\)"),
        (Scaffold(CONTROLLED), (), r"local\.inner\.oracle \(ClippedPerExample\)"),
        (replace(OUTPUT, grid=None), (), r"local \(Perturbed\)"),
        (replace(STEPS, direction=(Langevin(1.0),)), (), r"local\.direction\.0 \(Langevin\)"),
        (SGD, (OwnNoise(),), r"uplink\.0 \(OwnNoise\)"),
    ],
)
def test_noise_in_floats_is_refused_by_name(local, uplink, piece):
    algorithm = Algorithm(Everyone(), local, uplink)
    with pytest.raises(ValueError, match=f"{piece} draws its noise in floats.*GridGaussian"):
        on_device(algorithm)
    with pytest.raises(ValueError, match=rf"phases\.1\.{piece}"):
        on_device(InTurn((CASES["message"], algorithm)))


def test_clipping_without_noise_draws_nothing():
    plain = Algorithm(Everyone(), replace(SGD, oracle=ClippedPerExample(1.0)), (Clip(1.0),))
    assert on_device(plain) == plain


def test_a_simulation_refuses_noise_that_nobody_can_repeat():
    made = hush.Algorithm(hush.cohort.Everyone(), hush.local.Gradient(), (hush.uplink.GridGaussian(1.0, 8.0),))
    problem = hush.tasks.digits(clients=3)
    with pytest.raises(ValueError, match="simulate the one it was made of"):
        hush.run(hush.on_device(made), problem, 1, progress=False)


class Boastful(hush.uplink.STAGES["clip"].__base__):
    """Says that it costs one bit, and packs nothing."""

    def __call__(self, key, vector, state):
        return vector, state, {"bits": 1}


by_stage.register(Boastful)(any_function)  # private it is


def test_a_device_sends_the_bytes_that_are_counted():
    """And refuses a stage whose bits nothing packs."""
    problem = hush.tasks.quadratic(np.ones((2, 3, 2)), np.ones((2, 3)))
    agreed = {"dimension": 2, "rounds": 4, "epsilon": 1e3, "delta": 1e-5}
    noisy = hush.uplink.GridGaussian(1.0, 8.0)
    told = {"model": jnp.zeros(2), "round": np.int32(0)}

    def step(*uplink):
        algorithm = hush.Algorithm(hush.cohort.Everyone(), hush.local.Gradient(), uplink)
        guard = hush.network.Guard(algorithm, problem.population, 0, **agreed)
        return hush.network.device_step(guard, told, hush.init_client(algorithm, jnp.zeros(2)), problem.client(0))

    for stages in ((noisy,), (noisy, hush.uplink.QSGD(3)), (noisy, hush.uplink.TopK(1))):
        payloads, _, info = step(*stages)
        assert 8 * len(payloads["update"]) == int(info["bits"])
    with pytest.raises(ValueError, match="counts 1 bits and sends 64: a stage has bits that no Coder packs"):
        step(noisy, Boastful())
