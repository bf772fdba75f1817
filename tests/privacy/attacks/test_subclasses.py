"""A class that inherits from a known piece may do anything, and was accounted for as if it were that piece."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.channel import Alignment, Constant, FullPower, Groups, Noisy, OverTheAir, PerClient
from hush.channel.power import Scaling
from hush.cohort import Cyclic, Everyone, Poisson, Uniform
from hush.core.contract import Cohort, Draw, Statistics
from hush.core.keys import root
from hush.core.problem import ClientData, Population
from hush.local import ClippedPerExample, ClippedToBroadcast, Full, LocalSGD, Perturbed, WeightDecay
from hush.privacy import NoGuarantee, describe
from hush.server import AdaptingClip, Add, CorrelatedNoise
from hush.uplink import QSGD, Clip, Gaussian

POPULATION = Population(np.full(6, 10))
CENTRAL = hush.dp_fedavg(2, 6, clip=1.0, noise_multiplier=1.0)
AIR = hush.over_the_air(rule=FullPower(), fading=Constant(1.0), decibel=0.0, noise_variance=4.0)
STEP = LocalSGD(0.1, steps=1, batches=Full(), oracle=ClippedPerExample(1.0, 1.0))


def heir(kind, *arguments, **members):
    """A piece of a class of its own that inherits from a known one."""
    return type(f"Heir{kind.__name__}", (kind,), dict(members))(*arguments)


def at_full_volume(self, psi, weights, active, noise_variance, statistics):
    """A power rule that forgets the limit which keeps everybody within its power."""
    return Scaling(jnp.full_like(psi, 1e3), jnp.float32(1e-3))


def example(**slots):
    return hush.Algorithm(Everyone(), replace(STEP, **slots))


DISGUISED = {
    "cohort": replace(CENTRAL, cohort=heir(Poisson, 0.5, "equal")),
    "cyclic": replace(CENTRAL, cohort=heir(Cyclic, 2)),
    "uniform": replace(CENTRAL, cohort=heir(Uniform, 2, "equal")),
    "clip": replace(CENTRAL, uplink=(heir(Clip, 1.0),)),
    "noise of a client": replace(CENTRAL, uplink=(Clip(1.0), heir(Gaussian, 1.0)), channel=hush.channel.Digital()),
    "code after the noise": replace(
        CENTRAL, uplink=(Clip(1.0), Gaussian(1.0), heir(QSGD, 4)), channel=hush.channel.Digital()
    ),
    "server": replace(CENTRAL, server=heir(Add)),
    "inner server": replace(
        CENTRAL, cohort=Cyclic(2), channel=hush.channel.Digital(), server=CorrelatedNoise(1.0, 9, 3, heir(Add))
    ),
    "server over the air": replace(AIR, server=heir(Add)),
    "channel": replace(CENTRAL, channel=heir(Noisy, 1.0)),
    "inner channel": replace(CENTRAL, channel=Noisy(1.0, heir(Noisy, 1.0))),
    "adaptive client": replace(
        hush.dp_fedavg(2, 6, adaptive=True, noise_multiplier=1.0),
        local=heir(ClippedToBroadcast, hush.fedavg(steps=1).local),
    ),
    "adaptive server": replace(hush.dp_fedavg(2, 6, adaptive=True, noise_multiplier=1.0), server=heir(AdaptingClip)),
    "correlated": replace(
        CENTRAL, cohort=Cyclic(2), channel=hush.channel.Digital(), server=heir(CorrelatedNoise, 1.0, 9, 3)
    ),
    "fading": replace(AIR, channel=replace(AIR.channel, fading=heir(Constant, 1.0))),
    "fading of each": replace(AIR, channel=replace(AIR.channel, fading=PerClient(heir(Constant, 1.0)))),
    "groups": replace(AIR, channel=replace(AIR.channel, fading=heir(Groups, Constant(1.0), Constant(2.0), 2))),
    "power rule": replace(AIR, channel=replace(AIR.channel, rule=heir(Alignment, __call__=at_full_volume))),
    "air": replace(AIR, channel=heir(OverTheAir, FullPower(), Constant(1.0))),
    "oracle": example(oracle=heir(ClippedPerExample, 1.0, 1.0)),
    "batches": example(batches=heir(Full)),
    "direction": example(direction=(heir(WeightDecay, 0.1),)),
    "local rule": hush.Algorithm(Everyone(), heir(Perturbed, replace(STEP, oracle=ClippedPerExample(1.0)), 1.0)),
}  # fmt: skip


class Favourite(Cohort):
    """The same client in all places of a round: its ε is several times what one place a round costs."""

    def places(self, clients):
        return 4

    def __call__(self, key, population, number=0):
        ids = jnp.zeros(4, jnp.int32)
        return Draw(ids, jnp.full(4, 0.25), ids >= 0, jnp.float32(1))


def test_a_cohort_of_ones_own_has_no_guarantee_at_example_level_either():
    describe(example(), POPULATION, 5, unit="example")
    with pytest.raises(NoGuarantee, match="no proof is known for the cohort Favourite"):
        describe(replace(example(), cohort=Favourite()), POPULATION, 5)


@pytest.mark.parametrize("name", DISGUISED)
def test_an_heir_of_a_known_piece_is_not_known(name):
    for trust in (None, "server", "sum", "air", "local"):
        with pytest.raises(NoGuarantee):
            describe(DISGUISED[name], POPULATION, 5, trust=trust)


def test_a_rule_that_shouts_is_really_louder_than_was_claimed():
    """What the power rule above does to a client's amplitude, beside what its parent is accounted for."""
    draw = AIR.cohort(root(0), POPULATION, 0)
    claimed, shouted = (
        np.abs(np.asarray(made.channel(root(0), draw, 0, Statistics()).transmit)).max()
        for made in (AIR, DISGUISED["power rule"])
    )
    assert shouted > 500 * claimed


def test_a_problem_that_clips_in_its_own_way_is_refused(quadratic):
    """How examples are clipped is the problem's to compute, and only two ways of it have a proof."""

    class Careless(type(quadratic.client(0))):
        def clipped_gradient(self, params, rows, weights, bound):
            return self.gradient(params, rows, weights)

    class Problem(type(quadratic)):
        def client(self, index):
            return Careless(self, jnp.asarray(index))

    made = Problem(**{name: getattr(quadratic, name) for name in quadratic.__dataclass_fields__})
    assert issubclass(Careless, ClientData)
    describe(example(), quadratic, 3)
    with pytest.raises(NoGuarantee, match="no proof is known for how Careless clips"):
        describe(example(), made, 3, unit="example")
