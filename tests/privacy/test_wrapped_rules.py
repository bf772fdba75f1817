"""Rules around noisy steps have the guarantee of the steps: they see the data through the oracle, and not otherwise."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

import hush
from hush.core.keys import at, root
from hush.core.problem import Population
from hush.local import (
    Beside,
    ClippedPerExample,
    ControlVariate,
    Dynamic,
    Fresh,
    LinearPenalty,
    LocalOptimiser,
    LocalSGD,
    MeanGradient,
    Normalised,
    Oracle,
    PersonalPart,
    Proximal,
    Scaffold,
)
from hush.privacy import NoGuarantee
from hush.privacy.examples import by_rule

EQUAL = Population(np.full(20, 60))
NOISY = LocalSGD(lr=0.1, steps=3, batches=Fresh(2), oracle=ClippedPerExample(1.0, 1.5))


def wrapped(oracle):
    steps = replace(NOISY, oracle=oracle)
    return {
        "adam": replace(steps, optimiser=LocalOptimiser("adam")),
        "normalised": Normalised(steps),
        "dynamic": Dynamic(replace(steps, direction=(LinearPenalty(), Proximal(0.1)))),
        "personal part": PersonalPart(steps, ((1, 2),)),
        "beside": Beside(steps, replace(steps, oracle=MeanGradient(), direction=(Proximal(0.1),))),
        "scaffold": Scaffold(replace(steps, direction=(ControlVariate(),))),
    }


NAMES = list(wrapped(NOISY.oracle))


@pytest.mark.parametrize("name", NAMES)
def test_they_release_what_the_steps_do(name):
    found = by_rule(wrapped(NOISY.oracle)[name], EQUAL, 10, None)
    assert found.releases == by_rule(NOISY, EQUAL, 10, None).releases
    assert ("personal model stays" in " ".join(found.assumptions)) == (name == "beside")


@pytest.mark.parametrize("name", NAMES)
def test_without_noise_they_have_no_number(name):
    with pytest.raises(NoGuarantee, match="no noise is added"):
        by_rule(wrapped(ClippedPerExample(1.0))[name], EQUAL, 10, None)


class Blind(Oracle):
    """Gradients that say nothing of the data."""

    def __call__(self, key, params, rows, weights, data):
        return jax.tree.map(lambda leaf: random.normal(key, leaf.shape), params)


def rounds_of(rule, problem):
    """What a client sends in three rounds, with what it remembers in between."""
    memory, told, sent = rule.init(jnp.zeros(3)), {"model": jnp.arange(3.0), "control": jnp.ones(3)}, []
    for number in range(3):
        told = told | {"round": jnp.int32(number), "shared": told["model"][jnp.array([0, 2])]}
        message, memory, _ = rule(at(root(5), number), told, memory, problem.client(0))
        memory = rule.commit(told, memory, message)
        sent.append(message)
    return sent, memory


def same(one, other):
    return jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), one, other))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_the_oracle_sees_the_data(name):
    """With one that is blind, other data makes no other message, however long a client remembers."""
    draws = np.random.default_rng(0)
    first, second = (hush.tasks.quadratic(draws.normal(size=(2, 4, 3)), draws.normal(size=(2, 4))) for _ in range(2))
    blind, seeing = wrapped(Blind())[name], wrapped(MeanGradient())[name]
    (sent, kept), (also, other) = (rounds_of(blind, problem) for problem in (first, second))
    assert same(sent, also)
    if name == "beside":  # the model beside is trained on the data, and stays there
        assert not np.array_equal(kept["personal"], other["personal"])
    assert not same(*(rounds_of(seeing, each)[0] for each in (first, second)))
