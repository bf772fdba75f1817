"""Output noise, weight decay and a proximal term: each shrinks the distance of two trainings, both together need not.

With ηµ = 1.8 for each the distance is multiplied by |1 − 3.6| = 2.6 in every step: an update then moves by far more
than 2ηC(E − 1 + w), which the noise on it was made for.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.cohort import Uniform
from hush.core.keys import root
from hush.local import ClippedPerExample, Full, LocalSGD, Perturbed, Proximal, WeightDecay
from hush.privacy import NoGuarantee, describe

STEPS, LR, BOUND = 4, 0.9, 1.0


def training(*strengths, lr=LR):
    kinds = [WeightDecay, Proximal][: len(strengths)]
    direction = tuple(kind(strength) for kind, strength in zip(kinds, strengths, strict=True))
    return LocalSGD(lr=lr, steps=STEPS, batches=Full(), direction=direction, oracle=ClippedPerExample(BOUND))


def problem(first):
    """One client with one example, whose gradient is far longer than the bound whatever the model is."""
    return hush.tasks.quadratic(np.ones((1, 1, 1)), np.full((1, 1), first))


def moved(inner):
    """How far one replaced example moves the update, over the sensitivity that was proved."""
    told = {"model": jnp.zeros(1), "round": jnp.int32(0)}
    updates = [inner(root(0), told, {}, problem(first).client(0))[0]["update"] for first in (1e3, -1e3)]
    sensitivity = Perturbed(inner, 1.0).sensitivity(told, 1)
    return float(jnp.linalg.norm(updates[0] - updates[1]) / sensitivity)


def described(inner):
    return describe(hush.Algorithm(Uniform(1), Perturbed(inner, 1.0)), problem(1.0), 3, unit="example")


def test_each_alone_keeps_to_the_sensitivity():
    for inner in (training(), training(1.8 / LR), training(1.0 / LR, 1.0 / LR)):
        assert moved(inner) <= 1 + 1e-5
        assert described(inner).first.by_output


def test_both_together_do_not_and_are_refused():
    inner = training(1.8 / LR, 1.8 / LR)
    assert moved(inner) > 2.5
    with pytest.raises(NoGuarantee, match=r"WeightDecay and Proximal with step size 0\.9 × 4 > 2 drives"):
        described(inner)


def test_a_step_size_that_turns_negative_drives_them_apart_too():
    """|1 − ηµ| with η < 0 is more than one, however small µ is; a schedule is looked at in all rounds."""
    falling = training(1.0, lr=lambda count: 0.5 - 0.05 * count)
    assert described_rounds(falling, 2).rounds == 2
    with pytest.raises(NoGuarantee, match="negative or not finite"):
        described_rounds(falling, 4)  # 0.5 − 0.05 · 12 < 0


def described_rounds(inner, rounds):
    return describe(hush.Algorithm(Uniform(1), Perturbed(inner, 1.0)), problem(1.0), rounds, unit="example")
