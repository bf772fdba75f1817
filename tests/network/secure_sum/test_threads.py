"""Answers to a sum that come from several threads at once, and as a step is closed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from summing import Play, terms, verifier

from hush.network.messages import Declined, write_declined
from hush.network.refusals import Refused
from hush.network.secure_sum import masks
from hush.network.steps import STEPPED, Step, write_step
from hush.network.summing import Round, Summing

WHICH = Round(b"runrunru", b"agreement", 7, 0, b"told")
SOON = 30.0  # seconds, for what takes none


class Threaded(Play):
    """A sum whose answers come in at a desk."""

    def __init__(self, members, **changed):
        super().__init__(terms(members, **changed))
        self.desk = Summing(self.terms, verifier(), WHICH, lambda client: b"")
        self.server = self.desk._summation

    def accept(self, client, body, step):
        return self.desk.accept(client, write_step(STEPPED, Step(WHICH.run, WHICH.number, WHICH.phase, step, body)))


def test_vectors_are_added_one_at_a_time():
    """Four threads at once, each a million numbers: without a lock some are lost, in one of five sums."""
    play = Threaded(8, length=1_000_000)
    play.run(2)
    answers = {client: play.answer(client) for client in play.there()}
    with ThreadPoolExecutor(4) as pool:
        heard = list(pool.map(lambda client: play.accept(client, answers[client], 2), answers))
    assert {each.bits for each in heard} == {play.desk.bits} == {20 * 1_000_000}
    play.desk.advance()
    assert play.run()
    assert play.server.total().tolist() == play.expected()


def test_a_step_is_closed_before_a_vector_is_added_or_after(monkeypatch):
    """A vector that is half added as the deadline comes is added, and its client among those whose sum it is."""
    play, inside, go = Threaded(5), threading.Event(), threading.Event()
    play.run(2)
    answers = {client: play.answer(client) for client in play.there()}
    *early, late = answers
    for client in early:
        play.accept(client, answers[client], 2)

    def slowly(*given):
        inside.set()
        assert go.wait(SOON)
        add_packed(*given)

    add_packed = masks.add_packed
    monkeypatch.setattr(masks, "add_packed", slowly)
    adding = threading.Thread(target=play.accept, args=(late, answers[late], 2))
    closing = threading.Thread(target=play.desk.advance)
    adding.start()
    assert inside.wait(SOON)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()  # it waits for the vector
    go.set()
    adding.join(SOON)
    closing.join(SOON)
    monkeypatch.undo()
    assert late in play.server.survivors
    assert play.run()
    assert play.server.total().tolist() == play.expected()


def test_an_answer_to_a_step_that_is_closed_is_refused():
    play = Threaded(5)
    play.run(2)
    answers = {client: play.answer(client) for client in play.there()}
    *early, late = answers
    for client in early:
        play.accept(client, answers[client], 2)
    play.desk.advance()
    with pytest.raises(Refused, match="is at the step 'agree' of its sum, found an answer to step 2"):
        play.accept(late, answers[late], 2)
    play.absent = {late: 0}
    assert play.run()
    assert late not in play.server.survivors
    assert play.server.total().tolist() == play.expected()


def test_only_what_is_declined_in_this_sum_counts():
    """A word about an earlier round that arrives late, or about another run, leaves its client in the sum."""
    play = Threaded(5)
    client = play.there()[0]
    for other in ({"run": b"otherrun"}, {"number": 6}, {"phase": 1}):
        with pytest.raises(Refused, match="round 7 is open, found what was declined in"):
            play.desk.accept(client, write_declined(Declined(WHICH.run, 7, 0, "no")._replace(**other)))
    said = Declined(WHICH.run, 7, 0, "the battery is low")
    assert play.desk.accept(client, write_declined(said)) == said
