"""The private algorithms: assembled as their papers say, combined with compressors, clear about what they lack."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

import hush
from hush.core.problem import Population
from hush.local import ClippedPerExample, ControlVariate, Fresh, Full, LocalSGD, Perturbed, Scaffold, Subset
from hush.privacy import NoGuarantee, describe
from hush.server import AddWithControl, Replace
from hush.uplink import QSGD, Clip, ErrorFeedback, GridGaussian, TopK


@pytest.fixture(scope="module")
def digits():
    return hush.tasks.digits(clients=20, classes_per_client=2)


def test_private_fedpaq_is_algorithm_2():
    step = hush.private_fedpaq(5, steps=3, batch=8, clip=0.5, noise_multiplier=2.0, levels=4)
    assert (type(step.local.batches), step.local.oracle) == (Fresh, ClippedPerExample(0.5, 2.0))
    assert step.uplink == (QSGD(4),)
    output = hush.private_fedpaq(
        5, steps=3, batch=8, clip=0.5, noise_multiplier=2.0, perturbation="output", levels=None
    )
    assert isinstance(output.local, Perturbed)
    assert (type(output.local.inner.batches), output.local.inner.oracle) == (Subset, ClippedPerExample(0.5))
    assert (output.local.noise_multiplier, output.uplink) == (2.0, ())
    assert isinstance(hush.private_fedpaq(5, batch=None, noise_multiplier=1.0).local.batches, Full)


@pytest.mark.parametrize("perturbation", ["step", "output"])
@pytest.mark.parametrize("batch", [8, None])
def test_private_fedpaq_finds_its_noise(perturbation, batch, digits):
    made = hush.private_fedpaq(
        5, steps=3, batch=batch, perturbation=perturbation,
        epsilon=4.0, delta=1e-5, participations=6, examples=71,
    )  # fmt: skip
    found = hush.privacy.describe(made, digits, 10).spent((6,), 71, 1e-5).epsilon
    assert 3.9 < found <= 4.0


def test_model_clipping_sends_models():
    made = hush.ce_fedavg(5, clip=2.0, clipping="model", steps=1)
    assert (made.local.send, made.uplink, made.server) == ("model", (Clip(2.0),), Replace())
    assert hush.ce_fedavg(5, clip=2.0, steps=1).local.send == "update"


def test_dp_fedavg_puts_its_noise_where_it_is_asked_to():
    server = hush.dp_fedavg(5, 20, clip=0.4, noise_multiplier=1.5, steps=1)
    assert server.channel.std == pytest.approx(1.5 * 0.4 / 5)
    client = hush.dp_fedavg(5, 20, clip=0.4, noise_multiplier=1.5, steps=1, noise="client", draw="uniform", levels=4)
    clip, gaussian, quantiser = client.uplink
    assert (clip, quantiser) == (Clip(0.4), QSGD(4))
    # The noise of five clients together is that of the server.
    assert sqrt(5) * gaussian.std == pytest.approx(1.5 * 0.4)
    assert hush.dp_fedavg(5, 20, clip=0.4, noise_multiplier=1.5, steps=1, levels=4).uplink == (QSGD(4), Clip(0.4))
    correlated = hush.dp_fedavg(5, 20, clip=0.4, noise_multiplier=1.5, steps=1, draw="cyclic", bands=3, rounds=8)
    assert (correlated.server.rounds, correlated.server.bands) == (8, 3)


NOISY = LocalSGD(lr=0.1, steps=2, batches=Fresh(8), oracle=ClippedPerExample(1.0, 1.0))
COMBINED = {
    "elias": hush.private_fedpaq(5, steps=2, batch=8, noise_multiplier=1.0, code="elias"),
    "output, blocks": hush.private_fedpaq(5, steps=2, batch=8, noise_multiplier=1.0, perturbation="output", block=64),
    "memory": hush.Algorithm(hush.cohort.Uniform(5, "equal"), NOISY, (ErrorFeedback(TopK(65)),)),
    "scaffold": hush.Algorithm(
        hush.cohort.Uniform(5, "equal"), Scaffold(replace(NOISY, direction=(ControlVariate(),))), (QSGD(4),),
        server=AddWithControl(),
    ),
    "microbatches": hush.private_fedpaq(5, steps=2, batch=8, noise_multiplier=1.0, microbatch=3, weight_decay=0.01),
    "quantised sum": hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=1.0, steps=2, batch=8, levels=4),
    "clients' noise": hush.dp_fedavg(
        5, 20, clip=1.0, noise_multiplier=1.0, steps=2, batch=8, levels=4, noise="client", draw="uniform"
    ),
    "adaptive": hush.dp_fedavg(5, 20, adaptive=True, noise_multiplier=1.0, steps=2, batch=8),
    "adaptive, clients' noise": hush.dp_fedavg(
        5, 20, adaptive=True, noise_multiplier=1.0, steps=2, batch=8, levels=4, noise="client", draw="uniform"
    ),
    "models": hush.dp_fedavg(5, 20, clip=1.0, clipping="model", noise_multiplier=0.1, steps=2, batch=8),
    "correlated": hush.dp_fedavg(
        5, 20, clip=1.0, noise_multiplier=1.0, steps=2, batch=8, draw="cyclic", bands=3, rounds=4, levels=4
    ),
}  # fmt: skip


# Noise at the steps, at the clients and on the sum; each of the others is a program of its own to compile.
QUICK = ("elias", "adaptive, clients' noise", "correlated")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in COMBINED]
)
def test_they_combine_with_compressors_and_keep_their_figure(name, digits):
    result = hush.run(COMBINED[name], digits, 3, evaluate_every=3, progress=False)
    assert np.isfinite(result.vector).all()
    assert 0 < result.records["epsilon"].iloc[-1] < 1000
    unit = result.status["privacy"]["guarantee"]["what is protected"]
    assert unit.startswith("one example" if name in list(COMBINED)[:5] else "all the data")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hush.private_fedpaq(5), "takes a noise_multiplier, or epsilon, delta, participations and examples"),
        (lambda: hush.private_fedpaq(5, epsilon=1.0, noise_multiplier=1.0), "not both"),
        (lambda: hush.private_fedpaq(5, noise_multiplier=1.0, perturbation="both"), "unknown perturbation 'both'"),
        (
            lambda: hush.private_fedpaq(
                5, epsilon=1.0, delta=1e-5, participations=5, examples=50, perturbation="output"
            ),
            "= 120 examples is more than the smallest client's 50",
        ),
        (lambda: hush.ce_fedavg(5, clip=1.0, clipping="gradient"), "unknown clipping 'gradient'"),
        (lambda: hush.ce_fedavg(5, clip=1.0, clipping="model", server_lr=0.5), "no server_lr, found 0.5"),
        (lambda: hush.dp_fedavg(5, 20, noise_multiplier=1.0), "takes a clip, or adaptive=True"),
        (lambda: hush.dp_fedavg(25, 20, clip=1.0, noise_multiplier=1.0), "clients must be a whole number from 1 to 20"),
        (lambda: hush.dp_fedavg(5, 20, clip=1.0), "takes a noise_multiplier, or epsilon, delta and rounds"),
        (lambda: hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=1.0, epsilon=1.0, delta=1e-5), "not both"),
        (lambda: hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=1.0, bands=2, rounds=9), "goes with draw='cyclic'"),
        (lambda: hush.dp_fedavg(5, 20, adaptive=True, noise_multiplier=1.0, clipping="model"), "follows updates"),
        (lambda: hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=0.0), "noise_multiplier must be a positive number"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("perturbation", ["step", pytest.param("output", marks=pytest.mark.slow)])
def test_private_fedpaq_on_a_grid_keeps_its_promise(perturbation):
    """The noise for an ε, less what rounding to the grid takes, is accounted for and within it; and it can run."""
    problem, size = hush.tasks.digits(clients=5), 280
    asked = {"epsilon": 3.0, "delta": 1e-5, "participations": 6, "examples": size, "perturbation": perturbation}
    made = hush.private_fedpaq(5, steps=1, batch=40, grid_bits=20, dimension=650, **asked)
    hush.on_device(made)
    population = Population(np.full(5, size))
    found = describe(made, population, 6, dimension=650).epsilons(6, np.full((1, 5), 6), 1e-5).max()
    assert 2.9 < found <= 3.0
    assert np.isfinite(hush.run(made, problem, 1, progress=False).vector).all()
    with pytest.raises(NoGuarantee, match="noise on a grid depends on how many parameters"):
        describe(made, population, 6)
    with pytest.raises(ValueError, match="dimension must be a whole number"):
        hush.private_fedpaq(5, steps=1, batch=40, grid_bits=20, **asked)
    with pytest.raises(ValueError, match="dimension goes with grid_bits and an epsilon"):
        hush.private_fedpaq(5, steps=1, batch=40, dimension=650, **asked)
    with pytest.raises(ValueError, match="take more bits"):
        hush.private_fedpaq(5, steps=1, batch=40, grid_bits=5, dimension=650, **asked)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("draw", ["poisson", "uniform", "cyclic"])
def test_dp_fedavg_on_a_grid_keeps_its_promise(draw, adaptive):
    """The noise for an ε, less what rounding takes, is accounted for and within it; the server can draw it."""
    asked = {"epsilon": 3.0, "delta": 1e-5, "rounds": 6, "draw": draw, "steps": 1}
    asked |= {"adaptive": True} if adaptive else {"clip": 0.4}
    made = hush.dp_fedavg(20, 400, grid_bits=16, dimension=650, **asked)
    assert hush.on_server(made).channel.grid == hush.Grid(16, "system")
    found = describe(made, hush.privacy.EqualClients(400), 6, unit="client", dimension=650).most(1e-5)
    assert 2.9 < found <= 3.0
    assert made.channel.std > hush.dp_fedavg(20, 400, **asked).channel.std


@pytest.mark.slow
def test_dp_fedavg_on_a_grid_runs(digits):
    made = hush.dp_fedavg(5, 20, adaptive=True, noise_multiplier=1.0, steps=1, batch=8, grid_bits=16)
    result = hush.run(made, digits, 2, progress=False)
    assert np.isfinite(result.vector).all()
    assert 0 < result.records["epsilon"].iloc[-1] < 1000


def test_dp_fedavg_with_the_clients_noise_on_a_grid():
    """One stage for clipping and noise, which counts for each message alone: z/(2√P) of what one moves."""
    made = hush.dp_fedavg(25, 100, clip=0.4, noise_multiplier=15.0, noise="client", grid_bits=20, levels=4, steps=1)
    assert made.uplink == (GridGaussian(0.4, 15.0 * 0.4 / 5, hush.Grid(20)), QSGD(4))
    description = describe(made, hush.privacy.EqualClients(100), 3, unit="client")
    ((release, _),) = description.first.of(0)
    assert (description.first.trust, release.law) == ("local", "discrete gaussian")
    assert release.noise_multiplier == pytest.approx(15.0 / (2 * 5))
    with pytest.raises(NoGuarantee, match="a sum of noise on grids has another law"):
        describe(
            replace(made, uplink=made.uplink[:1]), hush.privacy.EqualClients(100), 3, unit="client", trust="assumed-sum"
        )
    asked = {"epsilon": 5.0, "delta": 1e-5, "rounds": 3, "noise": "client", "draw": "uniform", "grid_bits": 20}
    found = describe(hush.dp_fedavg(25, 100, clip=0.4, **asked), hush.privacy.EqualClients(100), 3).most(1e-5)
    assert 4.9 < found <= 5.0


GRID = {"clip": 1.0, "grid_bits": 20, "steps": 1}
TARGET = {"epsilon": 1.0, "delta": 1e-5, "rounds": 5}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise_multiplier": 1.0, "draw": "cyclic", "bands": 2, "rounds": 4}, "correlated noise is drawn in floats"),
        ({"noise_multiplier": 1.0, "adaptive": True, "noise": "client"}, "noise on a grid at the server only"),
        ({"noise_multiplier": 1.0, "dimension": 10}, "dimension goes with grid_bits, noise at the server and an eps"),
        (
            TARGET | {"dimension": 10, "noise": "client"},
            "dimension goes with grid_bits, noise at the server and an eps",
        ),
        (
            TARGET | {"dimension": 10, "grid_bits": None},
            "dimension goes with grid_bits, noise at the server and an eps",
        ),
        (TARGET, "with grid_bits, dimension must be a whole number of at least 1, found None"),
        (TARGET | {"dimension": 0}, "dimension must be a whole number of at least 1, found 0"),
        (TARGET | {"dimension": 10**6, "grid_bits": 5}, "a grid of 5 bits is too coarse for it.*take more bits"),
        ({"noise_multiplier": 1.0, "grid_bits": 3}, "bits must be a whole number from 5 to 22, found 3"),
        ({"noise_multiplier": 1e-9, "noise": "client"}, "std must be at least .* take fewer bits"),
    ],
)
def test_what_a_grid_of_dp_fedavg_refuses(settings, message):
    with pytest.raises(ValueError, match=message):
        hush.dp_fedavg(5, 20, **(GRID | settings))
