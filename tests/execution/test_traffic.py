"""What a round moves between devices, held to what the compiled program says."""

import math
import re

import jax
import jax.numpy as jnp
import pytest

import hush
from hush.execution import engine
from hush.execution.simulation import Simulation
from hush.execution.traffic import Traffic, of_round
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
    said = of_round(algorithm, unequal)
    assert said.reduced <= moved(simulation, "all-reduce") <= said.reduced + FIGURES
    # The compiler sends the bits of two phases once, where they are the same; and as places are dealt to devices
    # evenly, there may be a few more of them.
    twice = (len(algorithm.phases) - 1) * 6 * 8
    assert said.gathered - twice <= moved(simulation, "all-gather") <= said.gathered * 1.4


def test_rings():
    assert Traffic(100, 30).of_each(1) == 0
    assert Traffic(100, 30).of_each(4) == 0.75 * 230
