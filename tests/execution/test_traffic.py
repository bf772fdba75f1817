"""What a round moves between devices, held to what the compiled program says."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.execution import engine
from hush.execution.simulation import Simulation
from hush.execution.traffic import Lent, Traffic, fullest, of_round
from hush.server import Median

WIDTHS = {"pred": 1, "u8": 1, "s32": 4, "u32": 4, "f32": 4}
FIGURES = 64  # bytes of norms, losses and the like that a round sums up besides
LOCAL = {"steps": 2, "lr": 0.1}


def moved(simulation, operation):
    """The bytes of the results of all such operations in the program for one lane."""
    bounds = jnp.int32(0), jnp.int32(1)
    text = engine.advance.lower((simulation._inputs, bounds), simulation._state).lowered.compile().as_text()
    found = 0
    for line in text.splitlines():
        if match := re.search(rf"= (.*?) {operation}(-start)?\(", line):
            for kind, shape in re.findall(r"(\w+)\[([\d,]*)\]", match.group(1)):
                found += WIDTHS[kind] * math.prod(int(length) for length in shape.split(",") if length)
    return found


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "algorithm",
    [
        hush.scaffold(clients=6, **LOCAL),
        pytest.param(hush.fedavg(clients=6, **LOCAL), marks=pytest.mark.slow),
        pytest.param(hush.feddane(clients=6, **LOCAL), marks=pytest.mark.slow),
        pytest.param(
            hush.Algorithm(
                hush.cohort.Uniform(6), hush.fedavg(**LOCAL).local, channel=hush.channel.Each(), server=Median()
            ),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_program_moves_what_is_said(unequal, algorithm, streamed):
    assert len(jax.devices()) >= 2
    simulation = Simulation(algorithm, unequal, devices=2, streamed=streamed)
    simulation.advance(0)
    said = of_round(algorithm, unequal, streamed)
    assert said.reduced <= moved(simulation, "all-reduce") <= said.reduced + FIGURES
    # The compiler sends the bits of two phases once, where they are the same; and as places are dealt to devices
    # evenly, there may be a few more of them.
    twice = (len(algorithm.phases) - 1) * 6 * 8
    assert said.gathered - twice <= moved(simulation, "all-gather") <= said.gathered * 1.4
    # 3 clients on each of 2 devices: one state from each to each at a time, there and back.
    one_part = sum(2 * 2 * phase.bytes_of_each for phase in said.lent)
    assert moved(simulation, "all-to-all") == one_part
    assert (one_part > 0) == (streamed and simulation._supply.memories.any)


def test_rings():
    assert Traffic(100, 30).of_each(1) == 0
    assert Traffic(100, 30).of_each(4) == 0.75 * 230


def test_what_is_lent_is_as_much_as_the_fullest_pair_needs():
    """6 states on each of 2 machines, a part of one at a time: by hand, half of all rounds do with 4 for a pair."""
    chances = [math.comb(6, count) / 64 for count in range(7)]
    assert sum(chances[:5]) ** 4 >= 0.5 > sum(chances[:4]) ** 4
    assert Traffic(0, 0, (Lent(12, 10),)).of_each(2) == 0.5 * 2 * 2 * 4 * 10
    assert Traffic(0, 0, (Lent(12, 10),)).of_each(1) == 0


@pytest.mark.parametrize(("places", "devices"), [(1000, 2), (1000, 8), (1000, 64), (30, 4)])
def test_the_fullest_pair_is_that_of_cohorts_that_are_drawn(places, devices):
    """The median of 400 draws: their middle lies within one of the law's for any law as narrow as this one."""
    draws, worked_on = np.random.default_rng(0), -(-places // devices)
    most = []
    for _ in range(400):
        owners = draws.choice(64 * places, places, replace=False) % devices
        pairs = [np.bincount(part, minlength=devices) for part in np.array_split(owners, devices)]
        most.append(np.max(pairs))
    assert abs(np.median(most) - fullest(worked_on, devices)) <= max(1, 0.02 * worked_on / devices)
