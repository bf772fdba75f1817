"""Values that slip past a piece's own checks, by a sweep or as another library's number, and get a finite ε.

Every point of a sweep is checked, and described, as if it had been made by itself; Python's, NumPy's and JAX's numbers
are judged alike; what is not finite, or not known, raises.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.channel import Constant, FullPower, OverTheAir
from hush.core.problem import Population
from hush.execution.lanes import lay_out
from hush.privacy import NoGuarantee, Release, describe
from hush.runs.spending import Spending
from hush.uplink import Clip

NUMBERS = [float, np.float32, np.float64, jnp.float32]


def over_the_air(bound=1.0):
    return hush.over_the_air(rule=FullPower(), fading=Constant(1.0), decibel=0.0, noise_variance=4.0, bound=bound)


def private(**settings):
    return hush.private_fedpaq(2, steps=1, batch=None, noise_multiplier=1.0, **settings)


@pytest.mark.parametrize(
    ("algorithm", "sweep", "reason"),
    [
        # The channel was promised messages of norm 1: one of 100 is a hundred sensitivities.
        (over_the_air(), {"uplink.0.bound": [1.0, 100.0]}, "the channel takes messages of norm 1.0 at most"),
        # Noise of a negative deviation is not drawn at all, and −1 squared looks like noise to an accountant.
        (private(), {"local.oracle.noise_multiplier": [1.0, -1.0]}, "noise_multiplier must be a number of at least 0"),
        (private(), {"local.oracle.bound": [1.0, -1.0]}, "bound must be"),
        (hush.dp_fedavg(2, 6, clip=1.0, noise_multiplier=1.0), {"channel.std": [-1.0, 1.0]}, "std must be a positive"),
        (hush.dp_fedavg(2, 6, clip=1.0, noise_multiplier=1.0), {"uplink.0.bound": [1.0, -1.0]}, "bound must be"),
    ],
)
def test_a_sweep_cannot_reach_what_construction_refuses(algorithm, sweep, reason, quadratic):
    with pytest.raises(ValueError, match=reason):
        hush.run(algorithm, quadratic, 1, sweep=sweep, progress=False)


def test_a_point_in_the_middle_is_checked_too(quadratic):
    """A check need not be an interval: not the corners of a sweep are tried, but every point."""

    class Odd(Clip):
        def __check_init__(self):
            if float(self.bound) == 2.0:
                raise ValueError("two is odd here")

    made = replace(hush.fedavg(2, steps=1), uplink=(Odd(1.0),))
    with pytest.raises(ValueError, match="two is odd here"):
        hush.run(made, quadratic, 1, sweep={"uplink.0.bound": [1.0, 2.0, 3.0]}, progress=False)


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_of_any_library_is_judged(kind):
    """100 beside a channel of bound 1 was let through as np.float32, which is no Python float."""
    local = hush.fedavg(steps=1).local
    with pytest.raises(ValueError, match="the channel takes messages of norm"):
        hush.Algorithm(hush.cohort.Everyone(), local, (Clip(kind(100)),), OverTheAir(bound=1.0))
    with pytest.raises(ValueError, match="the channel takes messages of norm"):
        hush.Algorithm(hush.cohort.Everyone(), local, (Clip(2.0),), OverTheAir(bound=kind(1)))
    hush.Algorithm(hush.cohort.Everyone(), local, (Clip(kind(1)),), OverTheAir(bound=kind(1)))


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("value", ["nan", "-inf", "-1"])
def test_no_release_of_what_is_no_number(kind, value):
    with pytest.raises(ValueError, match="noise_multiplier must be"):
        Release(kind(float(value)), "replace")


def test_a_size_that_nobody_has_is_not_free():
    """It had no releases, and so an ε of zero."""
    description = describe(private(), Population(np.array([10, 20, 30])), 5)
    with pytest.raises(NoGuarantee, match="no client holds 11 examples; clients hold 10, 20, 30"):
        description.spent((5,), 11, 1e-5)


def test_each_point_is_described_as_if_it_were_alone(quadratic):
    made, values = hush.dp_fedavg(2, 6, clip=1.0, noise_multiplier=1.0), [0.5, 1.0, 4.0]
    sweep = {"uplink.0.bound": values}
    together = Spending(made, quadratic, lay_out(1, sweep), 3, 1e-5)
    taken = np.zeros((1, len(values), quadratic.population.clients), int)
    for found, bound in zip(together.epsilons(3, taken)[:, 0], values, strict=True):
        alone = describe(replace(made, uplink=(Clip(bound),)), quadratic, 3)
        assert found == alone.spent((3,), alone.sizes[0], 1e-5).epsilon
