"""The server's transcript: whatever a member sends out of order, twice, forged or for another, the others go on."""

import pytest
from cryptography import x509
from summing import STEPS, Play, authority, credential, flipped, terms, verifier

from hush.core.floats import WireError
from hush.network.secure_sum import Refused, Summation, Verifier, messages, shamir

CLIENT = 5


def before(step, members=5, **changed):
    """A sum just before a step, with all answers of that step."""
    play = Play(terms(members, **changed))
    assert play.run(until=step)
    return play, play.exchange()[1]


def goes_on(play, answers):
    """Whatever was refused, everybody's right answers are taken and the sum is right."""
    for client, data in answers.items():
        play.server.accept(client, data)
    assert play.server.advance()
    assert play.run()
    assert play.server.total().tolist() == play.expected()


@pytest.mark.parametrize("step", range(STEPS))
def test_answers_of_other_steps(step):
    play, answers = before(step)
    for other in range(STEPS):
        if other != step:
            _, others = before(other)
            with pytest.raises(WireError, match="expected a message"):
                play.server.accept(CLIENT, others[CLIENT])
    assert CLIENT in play.server.waiting
    goes_on(play, answers)


@pytest.mark.parametrize("step", range(STEPS))
def test_answers_of_another_round(step):
    play, answers = before(step)
    _, others = before(step, context=b"round 8")
    with pytest.raises(WireError, match="a message of another sum"):
        play.server.accept(CLIENT, others[CLIENT])
    goes_on(play, answers)


@pytest.mark.parametrize("step", range(STEPS))
def test_the_same_again_and_another_answer(step):
    play, answers = before(step)
    play.server.accept(CLIENT, answers[CLIENT])
    play.server.accept(CLIENT, answers[CLIENT])
    _, others = before(step)
    with pytest.raises(Refused, match=r"client 5 has answered the step '\w+' already, with another answer"):
        play.server.accept(CLIENT, others[CLIENT])
    assert CLIENT not in play.server.waiting
    goes_on(play, answers)


@pytest.mark.parametrize("step", range(STEPS))
def test_an_answer_that_comes_a_step_too_late(step):
    play, answers = before(step)
    late = answers.pop(CLIENT)
    for client, data in answers.items():
        play.server.accept(client, data)
    assert play.server.advance()
    said = "the sum is done" if step == STEPS - 1 else "client 5 was absent before: nothing is asked of it"
    with pytest.raises(Refused, match=said):
        play.server.accept(CLIENT, late)
    with pytest.raises(Refused, match=said):
        play.server.tell(CLIENT)
    assert CLIENT not in play.server.asked
    assert play.run()
    assert play.server.total().tolist() == play.expected()
    assert (CLIENT in play.server.survivors) == (step > 2)


@pytest.mark.parametrize("step", range(STEPS))
def test_a_stranger(step):
    play, answers = before(step)
    for call in (lambda: play.server.tell(4), lambda: play.server.accept(4, answers[CLIENT])):
        with pytest.raises(Refused, match="client 4 is no member of this sum"):
            call()
    goes_on(play, answers)


@pytest.mark.parametrize("step", range(STEPS))
def test_anothers_answer(step):
    """A member sends what another has sent: nobody's signature, shares or holdings are those of another."""
    play, answers = before(step)
    with pytest.raises((Refused, WireError)):
        play.server.accept(CLIENT, answers[7])
    goes_on(play, answers)


@pytest.mark.parametrize("step", [0, 3])
def test_a_bit_of_anything(step):
    """In every byte of what is signed as a whole."""
    play, answers = before(step, 3)
    for place in range(len(answers[CLIENT]) - 4):
        with pytest.raises((Refused, WireError)):
            play.server.accept(CLIENT, flipped(answers[CLIENT], place))
    goes_on(play, answers)


def test_a_bit_of_a_vector_with_its_signature():
    play, answers = before(2, 3)
    for place in range(38 + 64):
        with pytest.raises((Refused, WireError)):
            play.server.accept(CLIENT, flipped(answers[CLIENT], place))
    goes_on(play, answers)


def test_a_bit_of_what_is_revealed():
    """Of every share but its own, which nobody else has seen."""
    play, answers = before(4, 3)
    own = range(38 + 4 + 37, 38 + 4 + 2 * 37)
    for place in set(range(len(answers[CLIENT]) - 4)) - set(own):
        with pytest.raises((Refused, WireError)):
            play.server.accept(CLIENT, flipped(answers[CLIENT], place))
    goes_on(play, answers)


def test_a_bit_of_sealed_shares_is_seen_by_who_is_to_hold_them():
    for place in (38 + 32 + 4 + 4, 38 + 32 + 4 + 4 + 82, 38 + 32 + 4 + 4 + 82 + 63):
        play, answers = before(1)
        for client, data in answers.items():
            play.server.accept(client, flipped(data, place) if client == CLIENT else data)
        assert play.server.advance()
        with pytest.raises(Refused, match="the shares of client 5 for client 3"):
            play.answer(3)
        play.absent = {3: 2}
        assert play.run()
        assert play.server.total().tolist() == play.expected()


def test_shares_for_too_few_or_too_many():
    play, answers = before(1)
    own, dealt = messages.read_shares(play.terms, answers[CLIENT])
    fewer = {client: each for client, each in dealt.items() if client != 3}
    for wrong in (fewer, dealt | {CLIENT: dealt[3]}, {}):
        with pytest.raises(WireError, match="client 5 must send shares to all of its circle who are there"):
            play.server.accept(CLIENT, messages.write_shares(play.terms, own, wrong))
    goes_on(play, answers)


def test_shares_revealed_of_too_few_or_too_many():
    play = Play(terms(5), {3: 1})
    assert play.run(until=4)
    answers = play.exchange()[1]
    shares = messages.read_revealed(play.terms, answers[CLIENT])
    fewer = {client: share for client, share in shares.items() if client != 7}
    for wrong in (fewer, shares | {3: shares[7]}, {}):
        with pytest.raises(WireError, match="client 5 must reveal one share of each dealer"):
            play.server.accept(CLIENT, messages.write_revealed(play.terms, wrong))
    goes_on(play, answers)


def test_the_other_share_of_a_dealer():
    """A share of the mask key of a survivor is not taken, were it sent: it would tell the server both."""
    play = Play(terms(5))
    assert play.run(until=4)
    held = dict(play.members[CLIENT]._held)
    answers = play.exchange()[1]
    shares = messages.read_revealed(play.terms, answers[CLIENT])
    assert shares == {dealer: pair[1] for dealer, pair in held.items()}
    with pytest.raises(Refused, match="client 5 reveals another share of client 7 than it was dealt"):
        play.server.accept(CLIENT, messages.write_revealed(play.terms, shares | {7: held[7][0]}))
    goes_on(play, answers)


@pytest.mark.parametrize("place", [0, 31])
def test_a_member_that_lies_in_the_end_is_named_and_done_without(place):
    play = Play(terms(5))
    assert play.run(until=4)
    answers = play.exchange()[1]
    shares = messages.read_revealed(play.terms, answers[CLIENT])
    forged = bytearray(shares[9])
    forged[place] ^= 1
    with pytest.raises(Refused, match="client 5 reveals another share of client 9 than it was dealt"):
        play.server.accept(CLIENT, messages.write_revealed(play.terms, shares | {9: bytes(forged)}))
    del answers[CLIENT]
    goes_on(play, answers)
    assert CLIENT in play.server.survivors


@pytest.mark.parametrize("lost", [True, False])
def test_a_dealer_that_lies_is_named(lost, monkeypatch):
    """Its shares are of something else than the key, or the own mask, that it has shown."""
    split = shamir.split
    play = Play(terms(5), {CLIENT: 2} if lost else {})
    assert play.run(until=1)
    for client in play.there():
        with monkeypatch.context() as patch:
            if client == CLIENT:
                patch.setattr(shamir, "split", lambda secret, *rest: split(bytes(32), *rest))
            play.server.accept(client, play.answer(client))
    assert play.server.advance()
    assert not play.run()
    assert play.server.abandoned == "client 5 lied: the shares that it dealt are not of what it showed before"
    with pytest.raises(Refused, match="the sum was abandoned: client 5 lied"):
        play.server.total()


def test_a_public_key_that_gives_no_secret():
    """With which all neighbours of one member would refuse: the sum goes on without it."""
    play = Play(terms(5))
    keys = messages.read_keys(play.terms, play.answer(CLIENT))
    for name in ("sealing", "masking"):
        wrong = keys._replace(**{name: bytes(32)})
        signature = credential(CLIENT).signed(b"signed keys", play.terms.digest, CLIENT, wrong.content)
        with pytest.raises(Refused, match="a public key that gives no secret: clients 5"):
            play.server.accept(CLIENT, messages.write_keys(play.terms, wrong._replace(signature=signature)))
    play.absent = {CLIENT: 0}
    assert play.run()


def test_certificates_that_the_server_does_not_take(clock):
    play = Play(terms(3))
    answer = play.answer(CLIENT)
    serial = x509.load_der_x509_certificate(messages.read_keys(play.terms, answer).certificate).serial_number
    with pytest.raises(Refused, match="the certificate of client 5 was revoked"):
        Summation(play.terms, Verifier(authority().certificate, [serial])).accept(CLIENT, answer)
    clock(31)
    with pytest.raises(Refused, match="the certificate of client 5 expired"):
        Summation(play.terms, verifier()).accept(CLIENT, answer)


def test_who_is_asked_and_waited_for():
    play = Play(terms(3))
    assert (play.server.step, play.server.asked, play.server.waiting) == (0, (3, 5, 7), (3, 5, 7))
    assert play.server.open
    assert play.server.survivors == ()
    assert play.server.tell(3) == b""
    play.server.accept(5, play.answer(5))
    assert play.server.waiting == (3, 7)
    play.server.accept(3, play.answer(3))
    assert play.server.advance()
    assert (play.server.step, play.server.asked, play.server.waiting) == (1, (3, 5), (3, 5))
    with pytest.raises(Refused, match="no sum before the step 'reveal' is done: this is 'shares'"):
        play.server.total()
    assert play.run()
    assert not play.server.open
    assert (play.server.asked, play.server.waiting, play.server.survivors) == ((), (), (3, 5))
    assert not play.server.advance()
    with pytest.raises(Refused, match="the sum is done"):
        play.server.tell(3)


def test_everybody_is_told_what_concerns_it():
    """Keys of neighbours, shares to hold and no more signatures than are needed."""
    sparse = terms(clients=tuple(range(1, 24, 2)), chosen=6, needed=7, threshold=7)
    play = Play(sparse)
    assert play.run(until=1)
    circles = play.server._circles
    for client in sparse.clients:
        near = {other for other in sparse.clients if other in circles[client] or client in circles[other]} - {client}
        assert messages.read_key_ring(sparse, play.server.tell(client)).keys() == near
    assert play.run_step()
    for client in sparse.clients:
        _, dealt = messages.read_dealt(sparse, play.server.tell(client))
        assert dealt.keys() == {other for other in sparse.clients if client in circles[other]} - {client}
    assert play.run(until=4)
    for client in sparse.clients:
        signed = messages.read_signed(sparse, play.server.tell(client))
        assert len(signed) == sparse.threshold - 1
        for other, (_, certificate) in signed.items():
            assert bool(certificate) == (other not in circles[client] and client not in circles[other])
