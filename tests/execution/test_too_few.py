"""A round that is thrown away, since too few take part for its sum to be opened: nobody remembers anything of it."""

from dataclasses import replace

import jax
import numpy as np

import hush
from hush.channel import SecureSum
from hush.execution.simulation import Simulation
from hush.uplink import Clip, DiscreteGaussian, Modular


def test_neither_the_server_nor_a_client_moves(quadratic):
    """FedDyn, whose clients remember a gradient: three of four rounds are as they would be alone, and then none is."""
    made = hush.feddyn(alpha=0.1, steps=2, lr=0.1)
    summed = replace(made, uplink=(Clip(1.0), Modular(24, 1.0, 1000.0, DiscreteGaussian(0.5))), channel=SecureSum(3))
    clients = quadratic.population.clients
    allowance = np.full((1, clients), 2)
    allowance[0, :2] = 4  # two go on alone, which is one too few
    simulation = Simulation(summed, quadratic, seed=0, allowance=allowance)
    seen = []
    for _ in range(4):
        simulation.advance(1, allowance=allowance)
        seen.append((np.asarray(simulation.models), jax.tree.map(np.asarray, simulation.clients)))
    first, second, third, fourth = (jax.tree.leaves(each) for each in seen)
    assert any((one != other).any() for one, other in zip(first[1:], second[1:], strict=True))
    for later in (third, fourth):
        for one, other in zip(second, later, strict=True):
            np.testing.assert_array_equal(one, other)
