"""Devices whose answers are lost: what the others weigh, what the lost ones remember, what is counted of them."""

import contextlib
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from absences import by_hand

import hush
from hush.channel import Noisy
from hush.cohort import Everyone, Poisson
from hush.core import round as rounds
from hush.core.contract import Statistics
from hush.core.flat import initial
from hush.core.keys import at, root
from hush.local import LocalSGD
from hush.network.agreement import agree
from hush.network.memory import InMemory
from hush.network.messages import read_told
from hush.network.serving import rehearsing, serve, through_bytes
from hush.settings import NetworkSettings, RunSettings
from hush.store.journal import events
from hush.uplink import QSGD, Clip, ErrorFeedback, TopK

pytestmark = pytest.mark.slow  # many small runs, which add up

PROBLEM = hush.tasks.logistic_regression(4, 30, dimension=6)
ROUNDS = 4
LOST = {(1, 2), (2, 0), (2, 3)}  # (round, client) whose answers do not arrive
ALGORITHMS = {
    "scaffold": hush.scaffold(steps=3, lr=0.2, batch=8),  # no quantiser, for what `fleet` says of them
    "feedback": hush.Algorithm(Everyone(), LocalSGD(0.2, steps=3), (ErrorFeedback(TopK(2)),)),
    "feddane": hush.feddane(clients=4, steps=2, lr=0.2),
}
START = initial(PROBLEM, at(root(0), "repetition", 0, "init"))


def served(algorithm, lost, run=None, devices=None, folder=None, **rules):
    """A federation in memory, with some answers lost."""
    run = RunSettings(rounds=ROUNDS) if run is None else run
    agreement = agree(algorithm, PROBLEM, run, rehearsal=True)

    @contextlib.contextmanager
    def connect(desk):
        made = {c: rehearsing(agreement, algorithm, PROBLEM, run, c, START) for c in range(4)}

        def carry(client, data, up):
            number = desk._current.opened.number
            return b"" if up and (number, client) in lost else data

        yield InMemory(desk, made if devices is None else devices(made), carry)

    settings = NetworkSettings(**rules)
    return serve(algorithm, PROBLEM, run, connect, rules=settings, folder=folder, rehearsal=True, progress=False)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_lost_answer_is_as_none(name):
    """Also to the client itself: control variates and residuals stay as they were before it."""
    algorithm = ALGORITHMS[name]
    found = served(algorithm, LOST).vector[0]
    np.testing.assert_allclose(found, by_hand(algorithm, PROBLEM, LOST, ROUNDS), atol=2e-6)
    assert np.abs(found - by_hand(algorithm, PROBLEM, set(), ROUNDS)).max() > 1e-3


def test_participation_counts_when_told_and_bits_when_heard(tmp_path):
    found = served(ALGORITHMS["feedback"], LOST, folder=tmp_path / "run")
    clients = found.clients
    assert clients["rounds"].tolist() == [ROUNDS] * 4
    each = clients["uplink_bits"].to_numpy()
    lost = np.bincount([client for _, client in LOST], minlength=4)
    np.testing.assert_array_equal(each, each.max() // ROUNDS * (ROUNDS - lost))
    journal = list(events(Path(tmp_path / "run" / "journal.jsonl")))
    told = [(entry["round"], client) for entry in journal if entry["event"] == "told" for client in entry["clients"]]
    assert sorted(told) == [(number, client) for number in range(ROUNDS) for client in range(4)]
    assert sum(entry["event"] == "refused" for entry in journal) == len(LOST)


def test_what_was_not_heard_may_have_been_sent_all_the_same(tmp_path):
    """A client's budget pays for three messages: the first of client 2 is lost, and it sends no fourth."""
    algorithm = replace(ALGORITHMS["feedback"], uplink=(QSGD(2),))
    message = algorithm.uplink[0].fixed_bits(START.size)
    run = RunSettings(rounds=ROUNDS, client_bit_budget=3 * message)
    found = served(algorithm, {(0, 2)}, run, folder=tmp_path / "run")
    assert found.clients["rounds"].tolist() == [3] * 4
    assert found.clients["uplink_bits"].tolist() == [3 * message, 3 * message, 2 * message, 3 * message]
    assert "a client's bit budget is spent" in found.status["message"]
    again = served(algorithm, set(), run, folder=tmp_path / "run")  # what was lost is not forgotten
    assert again.clients["rounds"].tolist() == [3] * 4
    lost_all = served(algorithm, {(number, 2) for number in range(ROUNDS)}, run)
    assert lost_all.clients["rounds"].tolist() == [3] * 4


def test_too_few_answers_abandon_a_round_and_the_next_has_the_next_number():
    """Rounds 1 (three of four) and 2 (two of four) need all four: nothing of them is used."""
    whole = served(ALGORITHMS["feedback"], LOST, minimum=1.0)
    assert whole.status["layout"]["abandoned rounds"] == 2
    assert whole.status["round"] == ROUNDS
    two = {(number, client) for number in (1, 2) for client in range(4)}
    np.testing.assert_allclose(whole.vector[0], by_hand(ALGORITHMS["feedback"], PROBLEM, two, ROUNDS), atol=2e-6)


def test_enough_answers_close_a_round_early():
    found = served(ALGORITHMS["feedback"], set(), enough=0.5)
    assert found.records["participants"].iloc[-1] == 2
    assert found.clients["rounds"].sum() == 2 * ROUNDS


@pytest.mark.parametrize("private", [True, False])
def test_where_privacy_rests_on_weights_nobody_weighs_more(private):
    """The noise covers what one client can move the sum by: an absent client's weight goes to nobody there."""
    uplink, channel = ((Clip(0.1),), Noisy(0.5)) if private else ((Clip(0.1),), hush.channel.Digital())
    algorithm = hush.Algorithm(Poisson(0.9), LocalSGD(5.0, steps=3), uplink, channel)
    run = RunSettings(rounds=1)

    def devices(made):
        return {client: made[client] for client in (1,)}  # one of all that are drawn is there

    found = served(algorithm, set(), run, devices)
    moved = np.asarray(found.vector[0] - START)
    key = rounds.phase_key(at(root(0), "repetition", 0), 0, 0)
    draw = rounds.draw(algorithm, key, PROBLEM.population, 0)
    weight = {c: w for c, w, on in zip(*map(np.asarray, draw[:3]), strict=True) if on}
    mixing = rounds.mix(algorithm, key, draw, 0, Statistics())
    received = rounds.add_noise(key, mixing, {"update": jnp.zeros(START.size)})["update"]
    length = np.linalg.norm(moved - np.asarray(received))
    alone, together = 0.1 * weight[1], 0.1 * sum(weight.values())
    assert length == pytest.approx(alone if private else together, rel=1e-3)
    assert len(weight) > 1


def test_who_was_told_before_a_crash_is_counted_though_it_never_comes_back(tmp_path):
    """The server dies between telling client 2 of round 1 and hearing it; the device is gone afterwards."""
    algorithm, folder = ALGORITHMS["feedback"], tmp_path / "run"

    class Crash(Exception):
        pass

    kept = {}

    def crashing(made):
        kept.update(made)
        hear = made[2].hear

        def once(data):
            if read_told(data).number == 1:
                raise Crash
            return hear(data)

        made[2].hear = once
        return made

    with pytest.raises(Crash):
        served(algorithm, set(), devices=crashing, folder=folder)
    found = served(algorithm, set(), devices=lambda made: {c: kept[c] for c in (0, 1, 3)}, folder=folder)
    assert found.status["round"] == ROUNDS
    assert found.clients["rounds"].tolist() == [ROUNDS, ROUNDS, 2, ROUNDS]
    lost = {(number, 2) for number in range(1, ROUNDS)}
    np.testing.assert_allclose(found.vector[0], by_hand(algorithm, PROBLEM, lost, ROUNDS), atol=2e-6)


def test_samples_of_a_posterior_are_taken_as_in_a_simulation():
    algorithm = hush.fa_ld(steps=2, lr=1e-4, batch=8)
    run = RunSettings(rounds=6, sample_every=2)
    found = through_bytes(algorithm, PROBLEM, run, progress=False)
    expected = hush.run(algorithm, PROBLEM, 6, sample_every=2, progress=False)
    np.testing.assert_allclose(found.posterior.values, expected.posterior.values, atol=1e-5)
