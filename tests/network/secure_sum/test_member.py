"""A member's transcript: each message out of order, twice, of another sum, forged or missing ends it."""

import numpy as np
import pytest
from cryptography import x509
from summing import STEPS, Play, authority, copied, credential, flipped, terms

from hush.core.floats import WireError
from hush.network.certificates import new_authority, new_device
from hush.network.secure_sum import Credential, Member, Refused, Verifier, framing, messages
from hush.network.secure_sum.messages import Signed

NAMES = ("keys", "shares", "masked", "agree", "reveal")
CLIENT = 5


def before(step, **changed):
    """A sum of three just before a step, and what the member is told then."""
    play = Play(terms(3, **changed))
    assert play.run(until=step)
    return play, play.server.tell(CLIENT)


def finished(play, member):
    """It says no more, and has nothing left."""
    for step in range(STEPS):
        with pytest.raises(Refused, match=f"client {member.client} is asked for {NAMES[step]}, .* it is finished"):
            play.asked(copied(member), step, b"")
    assert not hasattr(member, "_secrets")
    assert member._held == {}


@pytest.mark.parametrize("asked", range(STEPS))
@pytest.mark.parametrize("step", range(STEPS))
def test_out_of_order(step, asked):
    play, told = before(step)
    if asked == step:
        play.asked(play.members[CLIENT], step, told)  # in order; and then once more, below
    with pytest.raises(Refused, match=f"client {CLIENT} is asked for {NAMES[asked]}, and what comes next is"):
        play.asked(play.members[CLIENT], asked, told)
    finished(play, play.members[CLIENT])


def test_after_the_last_step():
    play = Play(terms(3))
    assert play.run()
    finished(play, play.members[CLIENT])


@pytest.mark.parametrize("step", range(1, STEPS))
def test_of_another_round(step):
    play, _ = before(step)
    _, other = before(step, context=b"round 8")
    with pytest.raises(WireError, match="a message of another sum"):
        play.answer(CLIENT, other)
    finished(play, play.members[CLIENT])


@pytest.mark.parametrize("step", range(1, STEPS))
def test_nothing_of_another_round_fits_under_this_ones_name(step):
    """Keys, shares and signatures of the same clients, with only the digest changed."""
    play, told = before(step)
    _, other = before(step, context=b"round 8")
    forged = flipped(told[:6] + play.terms.digest + other[38:-4] + b"\0\0\0\0", 6)
    with pytest.raises((Refused, WireError)):
        play.answer(CLIENT, flipped(forged, 6))
    finished(play, play.members[CLIENT])


@pytest.mark.parametrize("step", range(1, STEPS))
def test_a_bit_of_anything(step):
    """In every byte of what it is told, under a right checksum."""
    play, told = before(step)
    for place in range(0, len(told) - 4, 1 if len(told) < 400 else 3):
        member = copied(play.members[CLIENT])
        with pytest.raises((Refused, WireError)):
            play.asked(member, step, flipped(told, place))
        finished(play, member)
    assert play.asked(play.members[CLIENT], step, told)


@pytest.mark.parametrize("step", range(1, STEPS - 1))
def test_of_another_member(step):
    """But for the last: signatures under the list are the same for all."""
    play, _ = before(step)
    with pytest.raises((Refused, WireError)):
        play.answer(CLIENT, play.server.tell(7))
    finished(play, play.members[CLIENT])


class TestKeys:
    def refused(self, play, ring, said):
        with pytest.raises(Refused, match=said):
            play.answer(CLIENT, messages.write_key_ring(play.terms, ring))
        finished(play, play.members[CLIENT])

    def ring(self, **changed):
        play = Play(terms(5, **changed))
        assert play.run(until=1)
        return play, {client: keys for client, keys in play.server._keys.items() if client != CLIENT}

    def test_too_few(self):
        play, ring = self.ring()
        self.refused(play, {3: ring[3]}, "2 of the circle of client 5 are there, 3 must")

    def test_its_own(self):
        play, ring = self.ring()
        self.refused(play, ring | {CLIENT: play.server._keys[CLIENT]}, "told its own keys")

    def test_one_under_the_name_of_another(self):
        play, ring = self.ring()
        self.refused(play, ring | {3: ring[7]}, "client 3 shows the certificate of client 7")

    def test_of_somebody_invented(self):
        """The server enrols a client with an authority of its own."""
        play, ring = self.ring()
        theirs = new_authority()
        made = Credential.of(new_device(theirs, "device-3", 3, 30), theirs.certificate)
        forged = messages.read_keys(play.terms, Member(play.terms, 3, made).keys())
        self.refused(play, ring | {3: forged}, "client 3 shows a certificate that does not count here")

    def test_in_the_middle(self):
        """The server puts its own public key into what another has signed."""
        play, ring = self.ring()
        for name in ("sealing", "masking", "choice"):
            forged = ring | {3: ring[3]._replace(**{name: bytes(31) + b"\x09"})}
            member = copied(play.members[CLIENT])
            with pytest.raises(Refused, match="a signature that is not of client 3"):
                member.shares(messages.write_key_ring(play.terms, forged))

    def test_without_a_secret(self):
        """Another member signs a key with which everybody knows what they share."""
        play, ring = self.ring()
        keys = ring[3]._replace(sealing=bytes(32))
        signature = credential(3).signed(b"signed keys", play.terms.digest, 3, keys.content)
        self.refused(play, ring | {3: keys._replace(signature=signature)}, "a public key that gives no secret")

    def test_revoked_as_far_as_the_member_was_told(self):
        play, ring = self.ring()
        serial = x509.load_der_x509_certificate(ring[3].certificate).serial_number
        told = credential(CLIENT)._replace(verifier=Verifier(authority().certificate, [serial]))
        play.members[CLIENT]._credential = told
        self.refused(play, ring, "the certificate of client 3 was revoked")

    def test_expired(self, clock):
        play, ring = self.ring()
        clock(31)
        self.refused(play, ring, "the certificate of client 3 expired on")

    def test_of_no_neighbour(self):
        play, _ = self.ring(clients=tuple(range(1, 24, 2)), chosen=6, needed=7, threshold=7)
        circles = play.server._circles
        pairs = ((one, other) for one in circles for other in circles if one != other)
        one, other = next((a, b) for a, b in pairs if a not in circles[b] and b not in circles[a])
        ring = {client: play.server._keys[client] for client in play.server._neighbours(one)}
        told = messages.write_key_ring(play.terms, ring | {other: play.server._keys[other]})
        with pytest.raises(Refused, match="are no neighbours: neither chose the other"):
            play.members[one].shares(told)


class TestDealt:
    def dealt(self):
        play = Play(terms(5))
        assert play.run(until=2)
        return play, *messages.read_dealt(play.terms, play.server.tell(CLIENT))

    def refused(self, play, dealers, dealt, said):
        with pytest.raises(Refused, match=said):
            play.answer(CLIENT, messages.write_dealt(play.terms, dealers, dealt))
        finished(play, play.members[CLIENT])

    def test_too_few(self):
        play, _, dealt = self.dealt()
        self.refused(play, {3, CLIENT}, {3: dealt[3]}, "2 have dealt shares, 3 must")

    def test_without_this_member(self):
        play, dealers, dealt = self.dealt()
        self.refused(play, dealers - {CLIENT}, dealt, "the dealers must include this member")

    def test_shares_that_are_missing(self):
        play, dealers, dealt = self.dealt()
        self.refused(play, dealers, {3: dealt[3]}, "the shares are not of those dealers who chose this member")

    def test_shares_of_one_for_another(self):
        """As they were sealed, but under another's name; or for another holder."""
        play, dealers, dealt = self.dealt()
        self.refused(play, dealers, dealt | {3: dealt[7]}, "the shares of client 3 for client 5 were not sealed by it")
        play, dealers, dealt = self.dealt()
        others = {3: play.server._shares[3][1][7]}
        self.refused(play, dealers, dealt | others, "the shares of client 3 for client 5 were not sealed by it")

    def test_a_dealer_whose_keys_it_was_not_told(self):
        """Calling somebody absent in one step, and there in the next."""
        play = Play(terms(5))
        assert play.run(until=1)
        ring = messages.read_key_ring(play.terms, play.server.tell(CLIENT))
        del ring[3]
        play.members[CLIENT].shares(messages.write_key_ring(play.terms, ring))
        told = messages.write_dealt(play.terms, set(play.terms.clients), {})
        with pytest.raises(Refused, match="of its circle only those whose keys it was told"):
            play.asked(play.members[CLIENT], 2, told)


@pytest.mark.parametrize(
    ("integers", "said"),
    [
        (np.zeros(9, np.int64), r"integers must be uint32 \[9\], found int64 \[9\]"),
        (np.zeros(8, np.uint32), r"found uint32 \[8\]"),
        (np.zeros((9, 1), np.uint32), r"found uint32 \[9, 1\]"),
        (np.full(9, 2**20, np.uint32), r"integers must be less than 2\*\*20, found 1048576"),
    ],
)
def test_vectors_that_are_not_as_agreed(integers, said):
    play, told = before(2)
    with pytest.raises(ValueError, match=said):
        play.members[CLIENT].masked(told, integers)
    finished(play, play.members[CLIENT])


class TestSurvivors:
    def listed(self):
        play = Play(terms(5, threshold=4), {11: 2})
        assert play.run(until=3)
        return play, *messages.read_survivors(play.terms, play.server.tell(CLIENT))

    def refused(self, survivors, signatures, said):
        play, _, _ = self.listed()
        with pytest.raises(Refused, match=said):
            play.answer(CLIENT, messages.write_survivors(play.terms, survivors, signatures))
        finished(play, play.members[CLIENT])

    def test_without_this_member(self):
        _, survivors, signatures = self.listed()
        self.refused(survivors - {CLIENT} | {11}, signatures, "the survivors must include this member")

    def test_with_one_who_has_not_dealt(self):
        play = Play(terms(5), {11: 1})
        assert play.run(until=3)
        told = messages.write_survivors(play.terms, set(play.terms.clients), {})
        with pytest.raises(Refused, match="and none who has not dealt shares"):
            play.answer(CLIENT, told)

    def test_too_few(self):
        _, _, signatures = self.listed()
        self.refused({3, CLIENT, 7}, {3: signatures[3], 7: signatures[7]}, "3 survive, 4 must")

    def test_without_a_signature(self):
        _, survivors, signatures = self.listed()
        del signatures[3]
        self.refused(survivors, signatures, "the signatures are not of those survivors whose shares this member holds")

    def test_with_the_signature_of_another(self):
        play, survivors, signatures = self.listed()
        told = messages.write_survivors(play.terms, survivors, signatures | {3: signatures[7]})
        with pytest.raises(Refused, match=r"a signature that is not of client 3, .* \(signed dealers\)"):
            play.answer(CLIENT, told)


class TestSigned:
    def signed(self, **changed):
        play = Play(terms(5, **changed), {11: 3})
        assert play.run(until=4)
        return play, messages.read_signed(play.terms, play.server.tell(CLIENT))

    def refused(self, play, signatures, said):
        with pytest.raises(Refused, match=said):
            play.answer(CLIENT, messages.write_signed(play.terms, signatures))
        finished(play, play.members[CLIENT])

    def test_too_few(self):
        play, signatures = self.signed()
        del signatures[3]
        self.refused(play, signatures, "2 have signed the list of survivors, 3 must")

    def test_its_own_counts_once(self):
        play, signatures = self.signed()
        del signatures[3]
        own = Signed(play.server._agreed[CLIENT], play.server._keys[CLIENT].certificate)
        self.refused(play, signatures | {CLIENT: own}, "2 have signed the list of survivors, 3 must")

    def test_under_another_list(self):
        play, signatures = self.signed()
        content = framing.clients_bytes(play.terms, {3, 5, 7})
        signature = credential(3).signed(b"signed survivors", play.terms.digest, 3, content)
        self.refused(play, signatures | {3: Signed(signature)}, "a signature that is not of client 3")

    def test_for_another_purpose(self):
        """A signature under the same list of clients, but as dealers."""
        play, signatures = self.signed()
        self.refused(play, signatures | {3: Signed(play.server._views[3])}, "a signature that is not of client 3")

    def test_of_one_who_did_not_survive(self):
        play = Play(terms(5, threshold=4), {11: 2})
        assert play.run(until=4)
        content = framing.clients_bytes(play.terms, set(play.server.survivors))
        late = Signed(credential(11).signed(b"signed survivors", play.terms.digest, 11, content))
        signatures = messages.read_signed(play.terms, play.server.tell(CLIENT))
        self.refused(play, signatures | {11: late}, r"clients who are not among the survivors: \[11\]")

    def test_with_a_certificate_that_came_before(self):
        play, signatures = self.signed()
        again = Signed(signatures[3].signature, credential(3).certificate)
        self.refused(play, signatures | {3: again}, "the certificate of client 3 came before")


def test_of_whom_it_is():
    with pytest.raises(Refused, match="client 4 is no member of this sum"):
        Member(terms(3), 4, credential(4))
    with pytest.raises(Refused, match="client 3 shows the certificate of client 5"):
        Member(terms(3), 3, credential(5))


def test_no_two_sums_have_a_secret_in_common():
    keys = [messages.read_keys(terms(3), Member(terms(3), 3, credential(3)).keys()) for _ in range(2)]
    assert not {keys[0].sealing, keys[0].masking, keys[0].choice} & {keys[1].sealing, keys[1].masking, keys[1].choice}
