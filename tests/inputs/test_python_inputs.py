"""Bad input from Python: a row is what is tried and the sentence it must get, before anything is compiled."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hush
from hush.algorithms import (
    ce_fedavg,
    distributed_sgd,
    dp_fedavg,
    fa_ld,
    fedadam,
    fedavg,
    feddane,
    fedpaq,
    fedprox,
    over_the_air,
    private_fedpaq,
    scaffold,
)
from hush.channel import Noisy, OverTheAir
from hush.cohort import Cyclic, Everyone, Poisson, SchemeII, Uniform
from hush.core.check import LARGEST
from hush.core.contract import Population
from hush.core.grid import Grid
from hush.core.keys import root
from hush.core.lanes import lay_out
from hush.core.schedules import InverseTime, Optax, StronglyConvex
from hush.core.simulation import Simulation
from hush.local import (
    ClippedPerExample,
    Fresh,
    Gradient,
    Langevin,
    LocalSGD,
    Perturbed,
    Proximal,
    Replacement,
    Shuffled,
    Subset,
)
from hush.local import WeightDecay as Decay
from hush.server import AdaptingClip, Add, AddWithControl, CorrelatedNoise, Optimiser
from hush.tasks import (
    digits,
)
from hush.uplink import QSGD, Clip, ErrorFeedback, Gaussian, GridGaussian, RandomK, TopK

NAN, INF, HUGE = float("nan"), float("inf"), 10**13
FLOAT, ZERO, NEGATIVE = np.float32, np.float32(0), jnp.float32(-1)


POSITIVE = "must be a positive number"
AT_LEAST = "must be a number of at least 0"
WHOLE = "must be a whole number"
FINITE = "must be a finite number"

NUMBERS = [
    # Python, NumPy and JAX scalars are judged alike.
    (lambda: Clip(-1.0), "bound must be a positive number, found -1.0"),
    (lambda: Clip(FLOAT(-1)), "bound must be a positive number, found -1.0"),
    (lambda: Clip(np.float64(-1)), "bound must be a positive number, found -1.0"),
    (lambda: Clip(np.array(-1.0)), POSITIVE),
    (lambda: Clip(NEGATIVE), "bound must be a positive number, found -1.0"),
    (lambda: Clip(ZERO), "bound must be a positive number, found 0.0"),
    (lambda: Clip(jnp.int32(0)), POSITIVE),
    (lambda: Clip(NAN), "bound must be a positive number, found nan"),
    (lambda: Clip(FLOAT(NAN)), "bound must be a positive number, found nan"),
    (lambda: Clip(jnp.float32(NAN)), "bound must be a positive number, found nan"),
    (lambda: Clip(INF), "found inf"),
    (lambda: Clip(jnp.float32(INF)), "found inf"),
    (lambda: Clip(1e39), r"at most 3\.4e\+38, found 1e\+39"),
    (lambda: Clip(10**400), "a whole number of about 401 digits"),
    (lambda: Clip(True), "bound must be a positive number, found True"),
    (lambda: Clip(np.bool_(True)), "bound must be a positive number, found True"),
    (lambda: Clip(jnp.array(True)), "bound must be a positive number, found True"),
    (lambda: Clip("1"), "bound must be a positive number, found '1'"),
    (lambda: Clip(None), "bound must be a positive number, found None"),
    (lambda: Clip([1.0]), r"bound must be a positive number, found \[1.0\]"),
    (lambda: Clip({}), "bound must be a positive number, found {}"),
    (lambda: Clip(1j), "bound must be a positive number, found 1j"),
    (lambda: Clip(jnp.complex64(1j)), POSITIVE),
    (lambda: Clip(np.array([1.0, -1.0])), "every entry of bound must be a positive number, found -1.0"),
    (lambda: Clip(np.array([])), "found an array of shape"),
    (lambda: Clip("x" * 10_000), "found 'xxx.*…"),
    (lambda: Gaussian(FLOAT(-0.5)), "std must be a positive number, found -0.5"),
    (lambda: Noisy(np.int64(0)), "std must be a positive number, found 0"),
    (lambda: ClippedPerExample(FLOAT(-1)), POSITIVE),
    (lambda: ClippedPerExample(1.0, FLOAT(-1)), AT_LEAST),
    (lambda: ClippedPerExample(1.0, 0.0, HUGE), f"microbatch must be a whole number from 1 to {LARGEST}"),
    (lambda: ClippedPerExample(1.0, grid=Grid()), "on a grid, noise_multiplier must be a positive number, found 0.0"),
    (lambda: ClippedPerExample(1.0, 1.0, grid=20), "grid must be a Grid or None, found 20"),
    (lambda: Perturbed(LocalSGD(0.1, 1, oracle=ClippedPerExample(1.0)), 1.0, "fine"), "grid must be a Grid or None"),
    (lambda: GridGaussian(ZERO, 1.0), "bound must be a positive number, found 0.0"),
    (lambda: GridGaussian(1.0, NAN), "std must be a number of at least 7.8.*e-31, found nan"),
    (lambda: GridGaussian(1e-30, 1e-31), "std must be a number of at least 7.8.*e-31, found 1e-31"),
    (lambda: GridGaussian(1.0, 1e-4), "std must be at least 0.000976562 of the bound.*take fewer bits"),
    (lambda: GridGaussian(np.array([1.0, 9e3]), FLOAT(1)), "std must be at least 0.000976562 of the bound"),
    (lambda: GridGaussian(1.0, 1.0, None), "grid must be a Grid, found None"),
    (lambda: Grid(HUGE), "bits must be a whole number from 5 to 22"),
    (lambda: Grid(jnp.int32(4)), "bits must be a whole number from 5 to 22, found 4"),
    (lambda: Grid(20, None), "unknown source of noise None"),
    (lambda: hush.on_device("fedavg"), "on_device takes an Algorithm, or several InTurn, found str"),
    (lambda: Proximal(jnp.float32(-1)), AT_LEAST),
    (lambda: Decay(FLOAT(NAN)), AT_LEAST),
    (lambda: Langevin(FLOAT(0)), POSITIVE),
    (lambda: Langevin(1.0, FLOAT(1.5)), "correlation must be a number from 0 to 1, found 1.5"),
    (lambda: Langevin(1.0, jnp.float32(1.5)), "correlation must be a number from 0 to 1, found 1.5"),
    (lambda: Poisson(FLOAT(1.5)), "rate must be a probability above 0 and at most 1, found 1.5"),
    (lambda: Poisson(NAN), POSITIVE),
    (lambda: AdaptingClip(quantile=FLOAT(2)), "quantile must be a share above 0 and at most 1"),
    (lambda: OverTheAir(bound=FLOAT(-1)), POSITIVE),
    (lambda: Add(FLOAT(-1)), "server lr must be a positive number"),
    (lambda: AddWithControl(True), "server lr must be a positive number, found True"),
    (lambda: CorrelatedNoise(FLOAT(0), 2, 1), POSITIVE),
    (lambda: InverseTime(FLOAT(0)), POSITIVE),
    (lambda: StronglyConvex(1.0, NEGATIVE), POSITIVE),
    # Whole numbers.
    (lambda: LocalSGD(0.1, steps=3 * 10**9), f"steps must be a whole number from 1 to {LARGEST}, found 3000000000"),
    (lambda: LocalSGD(0.1, epochs=3 * 10**9), f"epochs must be a whole number from 1 to {LARGEST}"),
    (lambda: LocalSGD(0.1, steps=2.0), "steps must be a whole number of at least 1, found 2.0"),
    (lambda: LocalSGD(0.1, steps=FLOAT(2)), "steps must be a whole number"),
    (lambda: LocalSGD(0.1, steps=jnp.int32(0)), "steps must be a whole number of at least 1, found 0"),
    (lambda: digits(clients=jnp.int32(3)), r"found 3; a JAX array is no fixed number, say int\(…\)"),
    (lambda: LocalSGD(0.1, steps=True), "found True"),
    (lambda: LocalSGD(0.1, steps=np.bool_(True)), "found True"),
    (lambda: LocalSGD(0.1, steps="2"), "found '2'"),
    (lambda: LocalSGD(0.1, steps=NAN), "found nan"),
    (lambda: LocalSGD(0.1, steps=np.int64(0)), "found 0"),
    (lambda: LocalSGD(0.1, steps=10**400), "about 401 digits"),
    (lambda: LocalSGD(0.1), "either steps or epochs"),
    (lambda: LocalSGD(0.1, steps=1, send="everything"), "unknown thing to send 'everything'"),
    (lambda: LocalSGD(0.1, steps=1, direction=(Decay,)), "direction takes Directions"),
    (lambda: Shuffled(10**13), f"batch must be a whole number from 1 to {LARGEST}"),
    (lambda: Subset(10**13), f"batch must be a whole number from 1 to {LARGEST}"),
    (lambda: Fresh(-1), "batch must be a whole number of at least 1, found -1"),
    (lambda: Replacement(10**13), f"batch must be a whole number from 1 to {LARGEST}"),
    (lambda: Uniform(10**12), f"cohort size must be a whole number from 1 to {LARGEST}"),
    (lambda: Uniform(0), "cohort size must be a whole number of at least 1, found 0"),
    (lambda: Uniform(2, "weight"), "unknown weighting 'weight'"),
    (lambda: Cyclic(2.5), WHOLE),
    (lambda: SchemeII(None), "found None"),
    (lambda: Everyone(3), "unknown weighting 3"),
    (lambda: TopK(2**40), f"k must be a whole number from 1 to {LARGEST}"),
    (lambda: RandomK("all"), WHOLE),
    (lambda: QSGD(2**40), "levels must be a whole number from 1 to"),
    (lambda: QSGD(3, block=-1), "block must be a whole number"),
    (lambda: ErrorFeedback(Clip(1.0)), "takes a compressor"),
    (lambda: Optimiser("adma", {}), "unknown optax optimiser 'adma'; did you mean"),
    (lambda: Optimiser("adam", {}), "does not take settings"),
    # Algorithms by name.
    (lambda: fedavg(lr="fast", steps=1), "lr must be a finite number, found 'fast'"),
    (lambda: fedavg(lr=None, steps=1), "lr must be a finite number, found None"),
    (lambda: fedavg(lr=True, steps=1), "lr must be a finite number, found True"),
    (lambda: fedavg(lr=[0.1], steps=1), FINITE),
    (lambda: fedavg(lr=10**400, steps=1), "lr must be"),
    (lambda: fedavg(lr=-1, steps=1), POSITIVE),
    (lambda: fedavg(lr=NAN, steps=1), FINITE),
    (lambda: fedavg(lr=FLOAT(-1), steps=1), POSITIVE),
    (lambda: fedavg(server_lr="1", steps=1), "server_lr must be a finite number, found '1'"),
    (lambda: fedavg(server_lr=0, steps=1), POSITIVE),
    (lambda: fedavg(weight_decay="x", steps=1), "weight_decay must be a finite number"),
    (lambda: fedavg(weight_decay=-0.1, steps=1), AT_LEAST),
    (lambda: fedavg(clients=0), "cohort size must be a whole number"),
    (lambda: fedavg(clients=10**12), f"from 1 to {LARGEST}"),
    (lambda: fedavg(batch=0), "batch must be a whole number"),
    (lambda: fedavg(batch=10**13), f"from 1 to {LARGEST}"),
    (lambda: fedavg(steps=3 * 10**9), f"from 1 to {LARGEST}"),
    (lambda: fedavg(steps=2, epochs=2), "either steps or epochs"),
    (lambda: fedavg(sampling="suffled"), "did you mean 'shuffled'"),
    (lambda: fedavg(weighting=None), "unknown weighting None"),
    (lambda: fedprox(mu="x", steps=1), "mu must be a finite number, found 'x'"),
    (lambda: fedprox(mu=-1, steps=1), AT_LEAST),
    (lambda: feddane(mu=None, steps=1), "mu must be a finite number, found None"),
    (lambda: scaffold(lr="x", steps=1), FINITE),
    (lambda: fedpaq(levels=0, steps=1), "levels must be a whole number from 1 to"),
    (lambda: fedpaq(code="dens", steps=1), "did you mean 'dense'"),
    (lambda: ce_fedavg(clip="x", steps=1), "clip must be a finite number"),
    (lambda: ce_fedavg(clip=0, steps=1), POSITIVE),
    (lambda: ce_fedavg(clip=1.0, clipping="both", steps=1), "unknown clipping 'both'"),
    (lambda: fedadam(server_lr=None, steps=1), "server_lr must be a positive number"),
    (lambda: fedadam(b1=1.5, steps=1), "b1 must be a number from 0 to 1, found 1.5"),
    (lambda: fedadam(b2=NAN, steps=1), "b2 must be a number of at least 0, found nan"),
    (lambda: fedadam(eps=0, steps=1), "eps must be a positive number"),
    (lambda: fa_ld(temperature="hot"), "temperature must be a finite number"),
    (lambda: fa_ld(correlation=2), "correlation must be a number from 0 to 1"),
    (lambda: fa_ld(prior=-1), AT_LEAST),
    (lambda: fa_ld(unbiased="no"), "unbiased must be True or False, found 'no'"),
    (lambda: fa_ld(scheme="III"), "unknown scheme 'III'"),
    (lambda: fa_ld(scheme="II"), "take per_round"),
    (lambda: fa_ld(clip=-1), POSITIVE),
    (lambda: distributed_sgd(lr="x"), FINITE),
    (lambda: over_the_air(bound="x"), "bound must be a finite number"),
    (lambda: over_the_air(noise_variance=0), POSITIVE),
    (lambda: dp_fedavg(10, 5, clip=1.0, noise_multiplier=1.0), "clients must be a whole number from 1 to 5, found 10"),
    (lambda: dp_fedavg(1, "many", clip=1.0, noise_multiplier=1.0), "population must be a whole number"),
    (lambda: dp_fedavg(1, 5, clip=1.0, noise_multiplier=FLOAT(-1)), POSITIVE),
    (lambda: dp_fedavg(1, 5, clip="x", noise_multiplier=1.0), "clip must be a finite number"),
    (lambda: dp_fedavg(1, 5, adaptive="yes", noise_multiplier=1.0), "adaptive must be True or False"),
    (lambda: private_fedpaq(noise_multiplier="x"), "noise_multiplier must be a finite number"),
    (lambda: private_fedpaq(noise_multiplier=1.0, clip=None), "clip must be a finite number"),
    (
        lambda: private_fedpaq(epsilon=1.0, delta=1e-5, participations=1, examples="ten"),
        "examples must be a whole number",
    ),
    (lambda: private_fedpaq(epsilon=1.0), "private_fedpaq takes a noise_multiplier, or epsilon, delta"),
    # Schedules.
    (lambda: Add(lambda count: jnp.ones(3)), r"must return one number, found float32 \(3,\)"),
    (lambda: Add(lambda count: NAN), "the schedule for server lr, at count 0, must be .* found nan"),
    (lambda: Add(lambda count: INF), "at count 0, must be .* found inf"),
    (lambda: Add(lambda count: -0.1), "at count 0, must be a number of at least 0, found -0.1"),
    (lambda: Add(lambda count: 0.5 - count), "at count 1, must be a number of at least 0, found -0.5"),
    (lambda: Add(lambda count: None), "the schedule for server lr fails at count 0"),
    (lambda: Add(lambda count: "x"), "the schedule for server lr fails at count 0: TypeError"),
    (lambda: Add(lambda: 0.1), "fails at count 0: TypeError"),
    (lambda: Add(lambda count: {}["lr"]), "fails at count 0: KeyError: 'lr'"),
    (lambda: Add(lambda count: 1j), "must return one number, found complex64"),
    (lambda: Add(InverseTime), "found the class InverseTime itself"),
    (lambda: fedavg(lr=lambda count: jnp.ones(2), steps=1), "the schedule for lr must return one number"),
    (lambda: LocalSGD(Optax("cosine_decay_schedule"), steps=1), "the schedule for lr fails at count 0: TypeError"),
    (
        lambda: LocalSGD(Optax("constant_schedule", {"value": -1.0}), steps=1),
        "must be a number of at least 0, found -1",
    ),
    (lambda: LocalSGD(optax.constant_schedule(NAN), steps=1), "found nan"),
    (lambda: Optax("cosine"), "unknown optax schedule 'cosine'"),
    # Seeds, repetitions, sweeps, populations.
    (lambda: root(2**64), f"seed must be a whole number from 0 to {2**64 - 1}, found {2**64}"),
    (lambda: root(-1), "seed must be a whole number of at least 0, found -1"),
    (lambda: root(0.5), "seed must be a whole number"),
    (lambda: root("0"), "seed must be a whole number"),
    (lambda: lay_out(10**9, None), "repetitions must be a whole number from 1 to 1000000, found 1000000000"),
    (lambda: lay_out(0, None), "repetitions must be a whole number from 1"),
    (lambda: lay_out(2.0, None), "repetitions must be a whole number"),
    (lambda: lay_out(True, None), "repetitions must be a whole number"),
    (lambda: lay_out("2", None), "repetitions must be a whole number"),
    (lambda: lay_out([], None), "repetitions must be 1 to 1,000,000 numbers in one list"),
    (lambda: lay_out([[0]], None), "repetitions must be 1 to 1,000,000 numbers in one list"),
    (lambda: lay_out([5 * 10**9], None), f"a repetition's number must be a whole number from 0 to {2**32 - 1}"),
    (lambda: lay_out([0, -1], None), "a repetition's number must be a whole number"),
    (lambda: lay_out([0, 1.5], None), "a repetition's number must be a whole number"),
    (lambda: lay_out([1, 1], None), "different numbers"),
    (
        lambda: lay_out(1000, {"local.lr": list(range(1, 2000))}),
        "at most 1,000,000 repetitions .*1,999,000",
    ),
    (lambda: lay_out(1, {"local.lr": []}), "takes a list of one or more numbers"),
    (lambda: lay_out(1, {"local.lr": 0.1}), "takes a list of one or more numbers, found 0.1"),
    (lambda: lay_out(1, {"local.lr": ["a"]}), "a value of the sweep over local.lr must be a finite number, found 'a'"),
    (lambda: lay_out(1, {"local.lr": [NAN]}), "a value of the sweep over local.lr must be a finite number, found nan"),
    (lambda: lay_out(1, {"local.lr": [[0.1]]}), "takes a list of one or more numbers"),
    (lambda: lay_out(1, ["local.lr"]), "a sweep is a table such as"),
    (lambda: Population(np.array([1, 2**31])), "a client holds at most 2,147,483,647 examples, found 2,147,483,648 at"),
    (lambda: Population(np.array([1.5, 2])), "client sizes must be whole numbers, found float64"),
    (lambda: Population(np.array(["3"])), "client sizes must be whole numbers"),
    (lambda: Population([True]), "client sizes must be whole numbers, found bool"),
    (lambda: Population([1, 0]), "every client needs at least one example, found 1 without"),
    (lambda: Population([[1]]), "a population needs a list of client sizes"),
    (lambda: Population([]), "a population needs a list of client sizes"),
]


@pytest.mark.parametrize(("call", "sentence"), NUMBERS)
def test_numbers(call, sentence, refused):
    refused(call, sentence)


RUNS = [
    (lambda a, p: Simulation(p, a), "the algorithm comes first and the problem second"),
    (lambda a, p: Simulation(None, p), "the algorithm must be an Algorithm .* found NoneType"),
    (lambda a, p: Simulation(a, None), "the problem must be a Problem .* found NoneType"),
    (lambda a, p: Simulation(hush.Algorithm, p), "found the class Algorithm itself"),
    (lambda a, p: Simulation(fedavg, p), r"found the function fedavg itself; call it: fedavg\(…\)"),
    (lambda a, p: Simulation(a, digits), "found the function digits itself"),
    (lambda a, p: Simulation([a, a], p), "found a list of 2; run one at a time"),
    (lambda a, p: Simulation("fedavg", p), "found the text 'fedavg'"),
    (lambda a, p: Simulation(a, (1, 2)), "found a tuple of 2"),
    (lambda a, p: Simulation(a.local, p), "the algorithm must be an Algorithm"),
    (lambda a, p: Simulation(a, p, seed=2**64), "seed must be a whole number from 0 to"),
    (lambda a, p: Simulation(a, p, seed=-1), "seed must be a whole number of at least 0, found -1"),
    (lambda a, p: Simulation(a, p, seed=1.5), "seed must be a whole number"),
    (lambda a, p: Simulation(a, p, repetitions=10**9), "repetitions must be a whole number from 1 to 1000000"),
    (lambda a, p: Simulation(a, p, repetitions=[5 * 10**9]), "a repetition's number must be a whole number from 0"),
    (lambda a, p: Simulation(a, p, devices=0), "devices must be"),
    (lambda a, p: Simulation(a, p, devices=10**6), "devices must be between 1 and"),
    (lambda a, p: Simulation(a, p, devices="2"), "devices must be a whole number"),
    (lambda a, p: Simulation(a, p, clients_at_once=0), "clients_at_once must be a whole number"),
    (lambda a, p: Simulation(a, p, clients_at_once=2.5), "clients_at_once must be a whole number"),
    (lambda a, p: Simulation(a, p, sweep={"local.rate": [0.1]}), "no such float setting"),
    (lambda a, p: Simulation(a, p, sweep={"local.lr": [INF]}), "must be a finite number, found inf"),
    (lambda a, p: Simulation(fedavg(7, steps=1), p), "draws 7 different clients, but there are only 6"),
    (lambda a, p: Simulation(fedavg(steps=3, batch=2, sampling="subset"), p), "a subset of 3 steps × batch 2"),
    (
        lambda a, p: Simulation(hush.Algorithm(Uniform(2), Gradient(), (TopK(4),)), p),
        "k must be at most the 3 numbers of a message, found 4",
    ),
    (lambda a, p: hush.Algorithm(Uniform(2), Gradient(), (Clip,)), r"the slot uplink\[0\] takes a Stage"),
    (lambda a, p: hush.Algorithm(Gradient(), Uniform(2)), "the slot cohort takes a Cohort"),
    (lambda a, p: hush.Algorithm(Uniform, Gradient()), "the slot cohort takes a Cohort"),
    (lambda a, p: hush.Algorithm(Uniform(2), Gradient(), Clip(1.0)), "the uplink must be a tuple of Stages"),
    (lambda a, p: hush.Algorithm(Uniform(2), Gradient(), None), "the uplink must be a tuple of Stages"),
    (lambda a, p: hush.Algorithm(Uniform(2), Gradient(), server=None), "the slot server takes a ServerRule"),
]


@pytest.mark.parametrize(("call", "sentence"), RUNS)
def test_runs(call, sentence, quadratic, refused):
    algorithm = fedavg(2, steps=1)
    refused(lambda: call(algorithm, quadratic), sentence)
