"""Real bytes between a coordinator and devices, with a simulation's keys: its model, its bits and its ε."""

import sys
from pathlib import Path

import numpy as np
import pytest

import hush
from hush.network import through_bytes
from hush.settings import RunSettings

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
from round_cases import CASES, ROUNDS, digits

pytestmark = pytest.mark.slow

OVER_THE_AIR = [name for name in CASES if name.startswith("over_the_air")]


@pytest.mark.parametrize(
    "name",
    [name for name in CASES if name not in OVER_THE_AIR],
)
def test_model_bits_and_privacy_are_the_simulators(name):
    algorithm, problem = CASES[name](), digits()
    simulated = hush.run(algorithm, problem, ROUNDS, progress=False, evaluate_clients=False)
    here = through_bytes(algorithm, problem, RunSettings(rounds=ROUNDS), progress=False)
    # What a rounding that differs may do: a quantiser falls on the level beside, in one number of a hundred.
    apart = np.abs(here.vector - simulated.vector) > 1e-5 + 1e-4 * np.abs(simulated.vector)
    assert apart.mean() <= 0.01
    for way in ("uplink", "downlink"):
        found, expected = (each.state[f"ledger/client_{way}_bits"] for each in (here, simulated))
        np.testing.assert_allclose(found, expected, rtol=0.01 if "elias" in name else 0)
    if simulated.epsilons is None:
        assert here.epsilons is None
    else:
        np.testing.assert_array_equal(here.epsilons, simulated.epsilons)
    np.testing.assert_allclose(
        here.records["train_loss"].to_numpy(), simulated.records["train_loss"].to_numpy(), rtol=1e-4
    )


@pytest.mark.parametrize("name", OVER_THE_AIR)
def test_over_the_air_is_refused_with_the_reason(name):
    with pytest.raises(ValueError, match="adds signals up in the air: a network carries each message by itself"):
        through_bytes(CASES[name](), digits(), RunSettings(rounds=1), progress=False)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"repetitions": 2}, "repetitions is for simulations"),
        ({"sweep": {"local.lr": [0.1, 0.2]}}, "sweep is for simulations"),
        ({"watch": True}, "watch is for simulations"),
        ({"evaluate_clients": True}, "evaluate_clients is for simulations"),
        ({"trust": "sum", "unit": "client"}, "trust='sum' cannot be enforced: here the server sees every message"),
    ],
)
def test_what_only_a_simulation_can_do_is_refused(settings, reason):
    with pytest.raises(ValueError, match=reason):
        through_bytes(CASES["fedavg"](), digits(), RunSettings(rounds=1, **settings), progress=False)
