"""From an algorithm to its guarantee: every multiplier reckoned a second way, and every refusal with its reason."""

from dataclasses import replace
from itertools import combinations, pairwise
from math import sqrt

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp

import hush
from hush.channel import Noisy
from hush.cohort import ByWeight, Cyclic, Everyone, Poisson, Uniform
from hush.core.keys import root
from hush.core.problem import Population
from hush.local import (
    ClippedPerExample,
    ControlVariate,
    Fresh,
    Full,
    Gradient,
    GradientCorrection,
    LocalSGD,
    PersonalPart,
    Perturbed,
    Replacement,
    Scaffold,
    Shuffled,
    Subset,
    WeightDecay,
)
from hush.privacy import NoGuarantee, Unsampled, describe
from hush.server import AddToShared, AddWithControl, CorrelatedNoise
from hush.uplink import QSGD, Clip, ErrorFeedback, Gaussian, TopK

EQUAL = Population(np.full(20, 60))
UNEQUAL = Population(np.arange(41, 61))
DELTA = 1e-5
ASSUMED = {"trust": "assumed-sum"}
SGD = LocalSGD(lr=0.1, steps=3, batches=Shuffled(8))


CLIP = (Clip(2.0),)


def algorithm(cohort=None, uplink=CLIP, channel=None, local=SGD, **more):
    slots = {"channel": channel} if channel is not None else {}
    return hush.Algorithm(cohort or Poisson(0.25, "equal"), local, uplink, **slots, **more)


def only(description):
    """The one release a round of a client, and how often it happens."""
    (guarantee,) = description.phases
    ((release, count),) = next(iter(guarantee.releases.values()))
    return release, count


@pytest.mark.parametrize(
    ("made", "trust", "relation", "multiplier"),
    [
        # Noise on the sum: Poisson moves it by c/(qN), a fixed cohort by 2c/P, everyone by 2c/N.
        (algorithm(channel=Noisy(0.7)), None, "add-or-remove", 0.7 / (2.0 / 5)),
        (algorithm(Uniform(4, "equal"), channel=Noisy(0.7)), None, "replace", 0.7 / (2 * 2.0 / 4)),
        (algorithm(Everyone("equal"), channel=Noisy(0.7)), "assumed-sum", "replace", 0.7 / (2 * 2.0 / 20)),
        (algorithm(Cyclic(4), channel=Noisy(0.7)), None, "replace", 0.7 / (2 * 2.0 / 4)),
        (algorithm(channel=Noisy(0.3, Noisy(0.4))), None, "add-or-remove", 0.5 / (2.0 / 5)),
        # Noise at the clients: the local model sees 2c of one message, the sum has √P of them.
        (algorithm(uplink=(Clip(2.0), Gaussian(3.0))), None, "replace", 3.0 / 4.0),
        (algorithm(uplink=(Clip(2.0), Gaussian(3.0), QSGD(4))), "local", "replace", 3.0 / 4.0),
        (algorithm(Uniform(4, "equal"), (Clip(2.0), Gaussian(3.0))), "assumed-sum", "replace", sqrt(4) * 3.0 / 4.0),
        (algorithm(uplink=(QSGD(4), Clip(2.0)), channel=Noisy(0.7)), None, "add-or-remove", 0.7 / (2.0 / 5)),
        # Two messages, each clipped: together they are √2 as long.
        (
            algorithm(
                local=Scaffold(replace(SGD, direction=(ControlVariate(),))), channel=Noisy(0.7), server=AddWithControl()
            ),
            None,
            "add-or-remove",
            0.7 / (sqrt(2) * 2.0 / 5),
        ),
    ],
)
def test_client_level_multipliers(made, trust, relation, multiplier):
    description = describe(made, EQUAL, 10, trust=trust)
    release, count = only(description)
    assert (description.first.unit, release.relation, count) == ("client", relation, 1)
    assert release.noise_multiplier == pytest.approx(multiplier, rel=1e-6)


@pytest.mark.parametrize("clients", [5, 6])
def test_in_turn_a_client_pays_for_its_own_rounds_with_noise_of_its_own(clients):
    """As often as the cohorts themselves have it, in whatever round it begins; of the Gaussian in closed form."""
    cohort, rounds = Cyclic(clients), 9
    drawn = [np.asarray(cohort(root(0), EQUAL, number).ids) for number in range(rounds)]
    most = int(np.bincount(np.concatenate(drawn), minlength=20).max())
    made = algorithm(cohort, (Clip(2.0), Gaussian(30.0)))
    expected = dp_accounting.get_epsilon_gaussian(30.0 / 4.0 / sqrt(most), DELTA)
    assert describe(made, EQUAL, rounds).most(DELTA) == pytest.approx(expected, rel=1e-6)


def test_adaptive_clipping_pays_for_its_indicator():
    """Andrew et al. 2021, Theorem 1: z^-2 = z_Δ^-2 + (2σ_b)^-2, here with both in units of one noise."""
    made = hush.dp_fedavg(5, 20, adaptive=True, noise_multiplier=1.7, steps=2)
    release, _ = only(describe(made, EQUAL, 10))
    sum_noise = made.channel.std * 5  # on the sum, in units of the clip
    update, indicator = sum_noise, sum_noise / (made.local.weight / 2)
    assert release.noise_multiplier == pytest.approx((update**-2 + indicator**-2) ** -0.5)
    assert release.noise_multiplier == pytest.approx(1.7)


def sampled(draw, z):
    """One round of 5 of 20 clients as the library's own event, and its relation."""
    gaussian = dp_accounting.GaussianDpEvent(z)
    if draw == "poisson":
        return dp_accounting.PoissonSampledDpEvent(0.25, gaussian), "ADD_OR_REMOVE_ONE"
    return dp_accounting.SampledWithoutReplacementDpEvent(20, 5, gaussian), "REPLACE_ONE"


@pytest.mark.parametrize(("draw", "factor"), [("poisson", 1), ("uniform", 2)])
def test_dp_fedavg_by_the_library_itself(draw, factor):
    made = hush.dp_fedavg(5, 20, clip=0.3, noise_multiplier=3.0, draw=draw, steps=2)
    event, relation = sampled(draw, 3.0 / factor)
    accountant = rdp.RdpAccountant(
        orders=list(range(2, 65)), neighboring_relation=dp_accounting.NeighboringRelation[relation]
    )
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, 30))
    found = describe(made, EQUAL, 30).spent((30,), 60, DELTA)
    assert found.rdp <= accountant.get_epsilon(DELTA) * 1.001
    assert found.rdp == pytest.approx(accountant.get_epsilon(DELTA), rel=0.02)


@pytest.mark.parametrize("draw", ["poisson", "uniform", "cyclic"])
def test_calibrated_noise_keeps_the_promise(draw):
    made = hush.dp_fedavg(5, 20, clip=1.0, epsilon=2.0, delta=DELTA, rounds=30, draw=draw, steps=2)
    assert 1.95 < describe(made, EQUAL, 30).epsilons(30, np.zeros((1, 20)), DELTA).max() <= 2.0


def test_correlated_noise_by_the_dense_matrix():
    """The sensitivity of C·(stream), by trying every set of rounds a client may take part in."""
    rounds, bands, separation = 7, 3, 4
    server = CorrelatedNoise(0.5, rounds, bands)
    column = np.asarray(server.strategy, float)
    matrix = np.array([[column[i - j] if 0 <= i - j < bands else 0.0 for j in range(rounds)] for i in range(rounds)])
    allowed = [
        rounds_
        for count in range(1, rounds + 1)
        for rounds_ in combinations(range(rounds), count)
        if all(b - a >= separation for a, b in pairwise(rounds_))
    ]
    # All entries of C are at least 0, so that parts of one direction add up to the most.
    truth = max(np.linalg.norm(matrix[:, list(rounds_)].sum(1)) for rounds_ in allowed)
    assert server.sensitivity(separation) == pytest.approx(truth, rel=1e-5)
    made = algorithm(Cyclic(5), server=server)
    release, _ = only(describe(made, EQUAL, rounds))
    assert release.noise_multiplier == pytest.approx(0.5 / (2 * 2.0 / 5 * truth), rel=1e-5)


CLIPPED, QUIET = ClippedPerExample(1.5, 0.8), ClippedPerExample(1.0)


@pytest.mark.parametrize(
    ("batches", "sample", "uses"),
    [
        (Fresh(8), (8, 60), 3),  # each step draws on its own
        (Subset(8), (24, 60), 1),  # an example is in one of the three batches at most
        (Full(), None, 3),
        (Shuffled(8), None, 1),  # 8 batches a pass: three steps are one pass at most
        (Shuffled(30), None, 2),  # 2 batches a pass: the third step begins the second pass
    ],
)
def test_noise_at_every_step(batches, sample, uses):
    made = algorithm(Uniform(4), (QSGD(4),), local=replace(SGD, batches=batches, oracle=CLIPPED))
    description = describe(made, EQUAL, 10)
    release, count = only(description)
    assert (description.first.unit, description.first.trust, release.relation) == ("example", "local", "replace")
    assert (release.noise_multiplier, count) == (0.8, uses)
    found = (release.sampling.size, release.sampling.of) if sample else None
    assert found == sample


def test_noise_on_the_update():
    inner = replace(SGD, batches=Subset(8), oracle=ClippedPerExample(1.5), direction=(WeightDecay(0.1),))
    description = describe(algorithm(Uniform(4), (QSGD(4),), local=Perturbed(inner, 0.6)), UNEQUAL, 10)
    assert len(description.first.releases) == 20
    ((release, count),) = description.first.of(50)
    assert (release.noise_multiplier, release.sampling.size, release.sampling.of, count) == (0.6, 24, 50, 1)
    assert description.first.by_output


def test_in_the_local_model_each_client_pays_for_its_own_rounds():
    description = describe(hush.private_fedpaq(4, steps=2, batch=8, noise_multiplier=1.0), UNEQUAL, 30)
    taken = np.arange(20)[None] % 4
    found = description.epsilons(30, taken, DELTA)
    assert (found[taken[0] == 0] == 0).all()
    assert found[3] > found[2] > found[1] > 0
    # More examples hide one of them better: clients 1 and 17 both came once.
    assert found[1] > found[17]
    for client in (1, 6, 19):
        accountant = rdp.RdpAccountant(
            orders=list(range(2, 65)), neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
        )
        one = dp_accounting.SampledWithoutReplacementDpEvent(
            int(UNEQUAL.sizes[client]), 8, dp_accounting.GaussianDpEvent(1.0)
        )
        accountant.compose(dp_accounting.SelfComposedDpEvent(one, 2 * int(taken[0, client])))
        assert found[client] <= accountant.get_epsilon(DELTA) * 1.001


@pytest.mark.parametrize(
    ("made", "asked", "reason"),
    [
        (hush.fedavg(4), {}, "does not clip each example's gradient.*nothing clips what a client sends"),
        (hush.ce_fedavg(4, clip=1.0), {}, "noise is added nowhere"),
        (hush.feddane(4), {}, "no privacy guarantee"),
        (algorithm(uplink=(Gaussian(1.0),)), {}, "noise on a message without a bound"),
        (algorithm(uplink=(Clip(1.0), QSGD(4)), channel=Noisy(1.0)), {}, "QSGD after the clipping may make a message"),
        (algorithm(uplink=(Clip(1.0), ErrorFeedback(TopK(3))), channel=Noisy(1.0)), {}, "put Clip after it"),
        (algorithm(Uniform(4, "equal"), (Clip(1.0), Gaussian(1.0), QSGD(4))), ASSUMED, "no function of the"),
        (algorithm(uplink=(Clip(1.0), Gaussian(1.0))), ASSUMED, "number of clients of a round is random"),
        (algorithm(uplink=(Clip(1.0), Gaussian(1.0))), {"trust": "server"}, "say trust='assumed-sum' or trust='local'"),
        (algorithm(uplink=(Clip(1.0), Gaussian(1.0)), channel=Noisy(1.0)), {}, "both at the clients and on the sum"),
        (algorithm(channel=Noisy(1.0)), {"trust": "local"}, "each client must add noise to its own message"),
        (algorithm(Uniform(4), channel=Noisy(1.0)), {}, "depend on who else takes part; use weighting='equal'"),
        (algorithm(ByWeight(4), channel=Noisy(1.0)), {}, "depend on who else|draw a client any number of times"),
        (algorithm(Uniform(4, "equal"), server=CorrelatedNoise(1.0, 20, 3)), {}, "may not come at random"),
        (algorithm(Cyclic(4), server=CorrelatedNoise(1.0, 5, 3)), {}, "correlated over 5 rounds, asked for 10"),
        (algorithm(local=replace(SGD, oracle=ClippedPerExample(1.0))), {"unit": "example"}, "no noise is added"),
        (
            algorithm(local=replace(SGD, batches=Replacement(8), oracle=CLIPPED)),
            {"unit": "example"},
            "may hold one example many times",
        ),
        (
            algorithm(local=replace(SGD, oracle=CLIPPED, direction=(GradientCorrection(),))),
            {"unit": "example"},
            "may look at the data besides",
        ),
        (
            algorithm(local=Perturbed(replace(SGD, oracle=QUIET, direction=(WeightDecay(21.0),)), 1.0)),
            {"unit": "example"},
            "drives trainings apart",
        ),
        (
            algorithm(local=Perturbed(replace(SGD, oracle=CLIPPED), 1.0)),
            {"unit": "example"},
            "noise both at every step and on the update",
        ),
        (algorithm(local=Gradient()), {"unit": "example"}, "MeanGradient does not clip"),
        (algorithm(channel=Noisy(1.0)), {"unit": "example", "trust": "sum"}, "needs no trust"),
    ],
)  # fmt: skip
def test_what_has_no_proof_has_no_number(made, asked, reason):
    with pytest.raises(NoGuarantee, match=reason):
        describe(made, UNEQUAL, 10, **asked)


def test_memory_that_cannot_be_seen_counts_as_memory():
    local = PersonalPart(SGD, ((5, 7),))
    made = algorithm(Uniform(4, "equal"), local=local, channel=Noisy(1.0), server=AddToShared(((5, 7),)))
    assert only(describe(made, EQUAL, 5, unit="client"))[0].sampling == Unsampled()


def test_a_piece_of_the_users_own_is_refused():
    class Echo(LocalSGD):
        """A local rule that may do anything."""

    class Loud(Clip):
        """A stage that may do anything."""

    echo = Echo(lr=0.1, steps=1, batches=Fresh(8), oracle=CLIPPED)  # as noisy as one that is known
    with pytest.raises(NoGuarantee, match="no proof is known for the local rule Echo"):
        describe(algorithm(local=echo), EQUAL, 5, unit="example")
    with pytest.raises(NoGuarantee, match="no proof is known for the stage Loud"):
        describe(algorithm(uplink=(Clip(1.0), Loud(1.0)), channel=Noisy(1.0)), EQUAL, 5, unit="client")


def test_correlated_noise_covers_the_update_alone():
    """A quantile's indicator, or a control variate, would arrive without any noise."""
    server = CorrelatedNoise(1.0, 10, 3)
    adaptive = hush.dp_fedavg(5, 20, adaptive=True, noise_multiplier=1.0, steps=1)
    made = replace(adaptive, cohort=Cyclic(5), channel=hush.channel.Digital(), server=hush.server.AdaptingClip(server))
    control = Scaffold(replace(SGD, direction=(ControlVariate(),)))
    for each in (made, algorithm(Cyclic(5), local=control, server=server)):
        with pytest.raises(NoGuarantee, match="covers the update alone"):
            describe(each, EQUAL, 10, unit="client")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"unit": "user"}, "unknown unit 'user'"),
        ({"trust": "everybody"}, "unknown trust model"),
    ],
)
def test_bad_questions(asked, message):
    with pytest.raises(ValueError, match=message):
        describe(algorithm(channel=Noisy(1.0)), EQUAL, 10, **asked)


def test_every_assumption_is_told():
    table = describe(algorithm(channel=Noisy(1.0)), EQUAL, 10).table(DELTA)
    assert table["what is protected"] == "all the data of one client"
    assert "added or removed" in table["neighbouring data"]
    assert "the server" in table["who is trusted"]
    assert table["δ"] == "1e-05"
    assert any("bound was not chosen" in text for text in table.values())
    assert any("who takes part in a round is kept secret" in text for text in table.values())
    everyone = describe(algorithm(Everyone("equal"), channel=Noisy(1.0)), EQUAL, 10).table(DELTA)
    assert not any("kept secret" in text for text in everyone.values())
