"""Messages over the air, through the engine: against NumPy, whatever the layout; energy, bits and channel uses."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.channel import Alignment, Constant, FullPower, GaussianReal, Groups, LeastSquares, OverTheAir, PerClient
from hush.core.contract import Statistics
from hush.core.evaluation import measures
from hush.core.keys import at, root
from hush.execution.simulation import Simulation
from hush.privacy.air import missing_noise
from hush.uplink import QSGD, Clip

GAINS = np.array([0.5, 2.0, 1.0, 0.25, 1.5, 0.75], np.float32)
QUIET = 1e-20  # a noise variance that leaves nothing of the noise


def made(rule, noise_variance=QUIET, bound=2.0, gains=GAINS, **more):
    fading = PerClient(Constant(jnp.asarray(gains)))
    return hush.over_the_air(
        rule=rule, fading=fading, decibel=3.0, noise_variance=noise_variance, bound=bound, server_lr=0.1, **more
    )


def messages(matrices, bound):
    """−∇f_i(0) of the quadratics, clipped."""
    A, b = matrices
    gradients = np.array([A[i].T @ b[i] for i in range(6)])
    return gradients * np.minimum(1, bound / np.linalg.norm(gradients, axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("rule", "coefficients"),
    [
        (Alignment(), np.full(6, 1 / 6)),
        (FullPower(), GAINS / GAINS.sum()),
    ],
)
def test_one_round_is_the_sum_that_the_paper_says(rule, coefficients, quadratic, matrices):
    result = hush.run(made(rule), quadratic, 1, progress=False)
    np.testing.assert_allclose(result.vector[0], 0.1 * coefficients @ messages(matrices, 2.0), rtol=1e-4, atol=1e-6)


def test_a_rule_that_knows_the_statistics_is_given_those_of_the_round(quadratic, matrices):
    """m² and v² by their definition, the rule called alone, and the sum it asks for."""
    sent = messages(matrices, 2.0)
    mean = sent.mean(0)
    statistics = Statistics(np.mean(mean**2), np.mean(sent.var(0)))
    amplitude = 10 ** (3.0 / 20) / 2.0
    scaling = LeastSquares()(jnp.asarray(GAINS * amplitude), jnp.full(6, 1 / 6), jnp.ones(6, bool), 0.05, statistics)
    expected = np.asarray(scaling.transmit * scaling.receive) * GAINS * amplitude @ sent
    many = hush.run(made(LeastSquares(), 0.05), quadratic, 1, repetitions=400, progress=False).vector
    deviation = 0.1 * np.sqrt(0.05) * float(scaling.receive)
    # 1200 draws: their mean and their variance each within five standard errors.
    assert np.abs(many.mean(0) - 0.1 * expected).max() < 5 * deviation / np.sqrt(400)
    assert abs(np.mean((many - 0.1 * expected) ** 2) / deviation**2 - 1) < 5 * np.sqrt(2 / 1200)


class Aware(FullPower):
    """Full power, but all messages are held at once."""

    aware: ClassVar[bool] = True


@pytest.mark.parametrize(
    "layout",
    [
        {"devices": 3, "clients_at_once": 2},
        pytest.param({"devices": 1, "clients_at_once": 1}, marks=pytest.mark.slow),
    ],
)
def test_holding_the_messages_changes_nothing(layout, quadratic):
    held, summed = (
        hush.run(made(rule, 0.01), quadratic, 5, repetitions=2, progress=False, **layout).vector
        for rule in (Aware(), FullPower())
    )
    np.testing.assert_allclose(held, summed, rtol=1e-4, atol=1e-6)


def test_the_signal_to_noise_ratio_is_recorded(quadratic, matrices):
    result = hush.run(made(FullPower(), 0.3), quadratic, 1, progress=False)
    heard = GAINS / GAINS.sum() @ messages(matrices, 2.0)
    divisor = GAINS.sum() * 10 ** (3.0 / 20) / 2.0
    assert result.records["snr"].iloc[-1] == pytest.approx(np.sum(heard**2) / (3 * 0.3 / divisor**2), rel=1e-4)


@pytest.mark.parametrize("rule", [Alignment(), FullPower(), LeastSquares()])
def test_nobody_exceeds_its_power_and_the_ledger_knows_it(rule, quadratic):
    powers = (0.0, 3.0, 6.0, -3.0, 10.0, 0.0)
    algorithm = hush.over_the_air(
        rule=rule, fading=Groups(GaussianReal(0.5, 0.01), GaussianReal(0.1, 1e-4), 3), decibel=powers, bound=0.5
    )
    result = hush.run(algorithm, quadratic, 7, evaluate_every=7, progress=False)
    energy = result.clients["energy"].to_numpy()
    assert (energy <= 7 * 10 ** (np.array(powers) / 10) * (1 + 1e-5)).all()
    assert energy.max() > 0
    last = result.records.iloc[-1]
    assert last["energy"] == pytest.approx(energy.sum())
    assert (last["channel_uses"], last["uplink_bits"]) == (7 * 3, 0)


def test_gains_belong_to_clients_and_rounds(quadratic):
    """Whoever else is drawn: the mixing of a round is that of the fading at the run's own address."""
    fading = GaussianReal(0.5, 0.04)
    algorithm = hush.over_the_air(clients=2, fading=fading, rule=FullPower(), noise_variance=QUIET, bound=9.0)
    simulation = Simulation(algorithm, quadratic)
    simulation.advance(2)
    lane = at(root(0), "repetition", 0)
    key = at(lane, "phase", 0, "channel")
    draw = algorithm.cohort(at(lane, "round", 1, "phase", 0, "cohort"), quadratic.population, 1)
    mixing = algorithm.channel(key, draw, 1, Statistics())
    alone = fading(key, draw.ids, 1).true
    np.testing.assert_allclose(mixing.coefficients, alone / alone.sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("uplink", "message"),
    [
        ((), r"put Clip\(1.0\) last, found nothing"),
        ((Clip(2.0),), "found a bound of 2.0"),
        ((Clip(1.0), QSGD(4)), "found nothing"),
    ],
)
def test_messages_must_be_bounded(uplink, message):
    with pytest.raises(ValueError, match=message):
        hush.Algorithm(hush.cohort.Everyone("equal"), hush.local.Gradient(), uplink, OverTheAir(bound=1.0))


def test_updates_of_local_training_travel_too(quadratic):
    algorithm = hush.over_the_air(steps=3, lr=0.05, server_lr=1.0, noise_variance=1e-4, bound=1.0)
    result = hush.run(algorithm, quadratic, 20, evaluate_every=20, progress=False)
    assert result.records["train_loss"].iloc[-1] < float(measures(quadratic, jnp.zeros(3))["train_loss"])


def test_what_is_refused():
    for make, message in (
        (lambda: OverTheAir(rule=Constant()), "rule takes a PowerRule, found Constant"),
        (lambda: OverTheAir(fading=FullPower()), "fading takes a Fading, found FullPower"),
        (lambda: OverTheAir(bound=0.0), "bound must be a positive number"),
        (lambda: OverTheAir(noise_variance=-1.0), "noise_variance must be a positive number"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def steady(rule, clients=None, **more):
    return made(rule, noise_variance=4.0, **more) if clients is None else hush.over_the_air(
        clients, rule=rule, fading=PerClient(Constant(jnp.asarray(GAINS))), decibel=3.0, noise_variance=4.0, bound=2.0
    )  # fmt: skip


@pytest.mark.parametrize(
    ("algorithm", "amplitude"),
    [
        (steady(FullPower()), 10**0.15 * GAINS.max()),  # the loudest at full power
        (steady(Alignment()), 10**0.15 * GAINS.min()),  # all as loud as the weakest
        (steady(Alignment(), clients=2), 10**0.15 * GAINS.max()),  # who else is drawn is not known: the worst case
    ],
)
def test_what_the_receivers_noise_hides(algorithm, amplitude, quadratic):
    """z = √N0/(2A), one client replaced; checked by what one client can move y, with messages of any direction."""
    description = hush.privacy.describe(algorithm, quadratic, 5)
    ((release, _),) = description.first.of(0)
    assert (description.first.trust, release.relation) == ("air", "replace")
    assert release.noise_multiplier == pytest.approx(np.sqrt(4.0) / (2 * amplitude), rel=1e-5)
    draw = algorithm.cohort(root(3), quadratic.population, 0)
    mixing = algorithm.channel(root(0), draw, 0, Statistics())
    moved = np.abs(np.asarray(mixing.coefficients)) * 2 * 2.0  # from L in one direction to L in the other
    assert moved.max() * release.noise_multiplier <= float(mixing.noise) * (1 + 1e-5)


def test_what_must_be_added_for_an_epsilon(quadratic):
    algorithm = steady(FullPower())
    wanted = hush.privacy.noise_multiplier_for(2.0, 1e-5, 5, "replace", hush.privacy.Unsampled())
    added = missing_noise(algorithm.channel, algorithm.cohort, quadratic.population, wanted)
    louder = made(FullPower(), noise_variance=4.0 + added)
    assert 1.99 < hush.privacy.describe(louder, quadratic, 5).spent((5,), 4, 1e-5).epsilon <= 2.0 + 1e-6
    assert missing_noise(louder.channel, louder.cohort, quadratic.population, 0.5 * wanted) == 0


@pytest.mark.parametrize(
    ("algorithm", "trust", "reason"),
    [
        (hush.over_the_air(2), None, "GaussianReal may make a client arbitrarily loud"),
        (made(LeastSquares()), None, "looks at the messages"),
        (steady(FullPower()), "server", "only the receiver's own noise is accounted for"),
        (hush.dp_fedavg(2, 6, clip=1.0, noise_multiplier=1.0), "air", "is for messages over the air"),
    ],
)
def test_where_the_air_hides_nothing(algorithm, trust, reason, quadratic):
    with pytest.raises(hush.privacy.NoGuarantee, match=reason):
        hush.privacy.describe(algorithm, quadratic, 3, unit="client", trust=trust)
