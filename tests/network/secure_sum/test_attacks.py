"""A server that lies: what it would learn if nobody looked, and who looks."""

import numpy as np
import pytest
from summing import Play, copied, credential, modular_sum, terms

from hush.network.secure_sum import Refused, framing, masks, messages, secrets, shamir
from hush.network.secure_sum.messages import Signed

VICTIM = 3


def survivors_for(play, client, survivors):
    """What a server that lies tells one member about who survives."""
    held = {other for other in survivors if client in play.server._shares[other][1]}
    return messages.write_survivors(play.terms, survivors, {other: play.server._views[other] for other in held})


def signed_for(play, client, agreed):
    return messages.write_signed(play.terms, {other: Signed(each) for other, each in agreed.items() if other != client})


def test_both_secrets_of_one_member_would_show_its_vector():
    """Why nobody may open both: with them, the masked vector is as good as plain."""
    play = Play(terms(3))
    member = play.members[VICTIM]
    assert play.run(until=2)
    both = member._secrets
    vector = masks.words(play.terms.bits, play.terms.length)
    _, packed = messages.read_masked(play.terms, play.answer(VICTIM))
    masks.add_packed(vector, packed, play.terms.bits)
    masks.take_mask(vector, secrets.own_mask_key(both.own, play.terms.digest, VICTIM))
    for other in (5, 7):
        public = play.server._keys[other].masking
        key = secrets.pair_mask_key(both.masking, public, play.terms.digest, VICTIM, other)
        masks.add_pair_mask(vector, key, other, VICTIM)
    assert masks.reduced(vector, play.terms.bits).tolist() == play.vectors[VICTIM].tolist()


def test_each_opens_one_share_of_everybody():
    """Of survivors of the own mask, of the lost of the mask key, and there is no second answer."""
    play = Play(terms(5), {11: 2})
    assert play.run(until=4)
    for client in play.there():
        member, told = play.members[client], play.server.tell(client)
        held = dict(member._held)
        shares = messages.read_revealed(play.terms, member.reveal(told))
        assert shares == {dealer: held[dealer][dealer != 11] for dealer in play.terms.clients}
        with pytest.raises(Refused, match="it is finished"):
            member.reveal(told)


def test_two_lists():
    """Some are told that the victim survives, others that it is lost: one of the lists has too few signatures."""
    play = Play(terms(5))
    assert play.run(until=3)
    everybody = frozenset(play.terms.clients)
    lists = {client: everybody if client in (VICTIM, 5) else everybody - {VICTIM} for client in everybody}
    agreed = {
        client: messages.read_agreed(play.terms, play.members[client].agree(survivors_for(play, client, lists[client])))
        for client in everybody
    }
    # Three of five have signed the list without the victim: they may open its mask key, and nothing else can be opened.
    for client in everybody:
        same = {other: signature for other, signature in agreed.items() if lists[other] == lists[client]}
        member = copied(play.members[client])
        if client in (VICTIM, 5):
            with pytest.raises(Refused, match="2 have signed the list of survivors, 3 must"):
                member.reveal(signed_for(play, client, same))
            with pytest.raises(Refused, match="a signature that is not of client"):
                copied(play.members[client]).reveal(signed_for(play, client, agreed))
        else:
            shares = messages.read_revealed(play.terms, member.reveal(signed_for(play, client, same)))
            held = play.members[client]._held
            assert shares[VICTIM] == held[VICTIM][0]


def test_nobody_signs_two_lists():
    play = Play(terms(5))
    assert play.run(until=3)
    everybody = frozenset(play.terms.clients)
    play.members[5].agree(survivors_for(play, 5, everybody))
    with pytest.raises(Refused, match="client 5 is asked for agree, and what comes next is reveal"):
        play.members[5].agree(survivors_for(play, 5, everybody - {VICTIM}))


def test_colluding_members_cannot_make_two_lists_with_the_right_threshold():
    """Two of seven sign whatever the server likes. Where the threshold is 5 = (7 + 2) / 2 + ½, one list is signed."""
    play = Play(terms(7, threshold=5, colluding=2))
    assert play.run(until=3)
    everybody = frozenset(play.terms.clients)
    friends, honest = play.terms.clients[:2], play.terms.clients[2:]
    victim = honest[0]
    lists = {client: everybody - {victim} if client in honest[3:] else everybody for client in honest}
    agreed = {}
    for client in honest:
        answer = play.members[client].agree(survivors_for(play, client, lists[client]))
        agreed[client] = messages.read_agreed(play.terms, answer)
    for client in honest:
        content = framing.clients_bytes(play.terms, lists[client])
        theirs = {
            friend: credential(friend).signed(b"signed survivors", play.terms.digest, friend, content)
            for friend in friends
        }
        same = {other: each for other, each in agreed.items() if lists[other] == lists[client]}
        told = signed_for(play, client, same | theirs)
        if victim in lists[client]:
            assert play.members[client].reveal(told)
        else:
            with pytest.raises(Refused, match="4 have signed the list of survivors, 5 must"):
                play.members[client].reveal(told)


def test_a_member_that_is_told_of_few_dealers_and_never_asked_again():
    """It masks with the server's friends alone; those who hold its shares see that, and do not open its own mask."""
    play = Play(terms(5))
    assert play.run(until=2)
    few = frozenset({VICTIM, 5, 7})
    for client in play.there():
        dealers, dealt = messages.read_dealt(play.terms, play.server.tell(client))
        if client == VICTIM:
            dealers, dealt = few, {dealer: each for dealer, each in dealt.items() if dealer in few}
        data = play.members[client].masked(messages.write_dealt(play.terms, dealers, dealt), play.vectors[client])
        play.server._views[client], _ = messages.read_masked(play.terms, data)
    for client in set(play.terms.clients) - {VICTIM}:
        with pytest.raises(Refused, match=r"a signature that is not of client 3, .* \(signed dealers\)"):
            play.members[client].agree(survivors_for(play, client, frozenset(play.terms.clients)))


def test_a_list_with_too_few_of_somebodys_circle():
    """A group is left alone with a member; who holds its shares counts its circle, though it is not asked itself."""
    sparse = terms(clients=tuple(range(1, 24, 2)), chosen=8, needed=8, threshold=7)
    play = Play(sparse)
    assert play.run(until=3)
    circles = play.server._circles
    victim = sparse.clients[0]
    lost = sorted(circles[victim] - {victim})[:2]
    survivors = frozenset(sparse.clients) - set(lost)
    holders = [client for client in survivors if client in circles[victim] and client != victim]
    assert len(holders) == 8 - 2
    for client in holders:
        with pytest.raises(Refused, match=r"of the circle of client \d+ survive, 8 must"):
            play.members[client].agree(survivors_for(play, client, survivors))


def test_below_the_threshold_nobody_signs_or_reveals():
    """Two of five are lost, four must be left: the others sign no list of three, and open nothing with three names."""
    play = Play(terms(5, threshold=4), {9: 3, 11: 3})
    assert play.run(until=3)
    left, everybody, agreed = frozenset({3, 5, 7}), frozenset(play.terms.clients), {}
    for client in left:
        with pytest.raises(Refused, match="3 survive, 4 must"):
            copied(play.members[client]).agree(survivors_for(play, client, left))
        answer = play.members[client].agree(survivors_for(play, client, everybody))
        agreed[client] = messages.read_agreed(play.terms, answer)
    for client in left:
        with pytest.raises(Refused, match="3 have signed the list of survivors, 4 must"):
            play.members[client].reveal(signed_for(play, client, agreed))


def test_fewer_shares_than_needed_give_another_secret():
    play = Play(terms(5, threshold=4))
    own = play.members[VICTIM]._secrets.own
    assert play.run(until=3)
    points = {play.terms.positions[client] + 1: play.members[client]._held[VICTIM][1] for client in play.terms.clients}
    assert shamir.joined(dict(list(points.items())[:4])) == own
    assert shamir.joined(dict(list(points.items())[:3])) != own


def test_what_the_server_has_in_the_end_is_the_sum_and_no_other():
    """With all that was opened, no smaller group's sum comes out: masks between survivors are left in it."""
    play = Play(terms(5))
    seen = {}
    accept = play.server._hear_masked
    play.server._hear_masked = lambda client, data: (seen.update({client: data}), accept(client, data))[1]
    own = {client: member._secrets.own for client, member in play.members.items()}
    assert play.run()
    for group in ({3}, {3, 5}, {3, 5, 7, 9}, {3, 5, 7, 9, 11}):
        total = masks.words(play.terms.bits, play.terms.length)
        for client in group:
            masks.add_packed(total, messages.read_masked(play.terms, seen[client])[1], play.terms.bits)
            masks.take_mask(total, secrets.own_mask_key(own[client], play.terms.digest, client))
        found = masks.reduced(total, play.terms.bits).tolist()
        expected = modular_sum(play.terms, play.vectors, group)
        assert (found == expected) == (len(group) == 5)
        assert len(group) == 5 or np.sum(np.array(found) == expected) <= 1


def test_a_context_that_came_again_would_open_the_sum_of_a_smaller_group():
    """Why a context is never used twice, and a device never goes back to a run that it has left.

    Six members, four of whom must survive. In three sums of the same name a server lets two others be lost each time,
    and keeps what was signed. In a fourth it shows each member one of these lists, with the old signatures under it:
    of three members all mask keys are opened, and of the other three the own masks. That is a sum of three.
    """
    named = terms(6, threshold=4)
    group, others = named.clients[:3], named.clients[3:]
    everybody, kept = frozenset(named.clients), {}
    for left in others:
        survivors = frozenset({*group, left})
        play = Play(named, dict.fromkeys(everybody - survivors, 2))
        assert play.run(until=4)
        kept[survivors] = dict(play.server._agreed)
    play, masked, revealed = Play(named), {}, {}
    assert play.run(until=2)
    for client in named.clients:
        masked[client] = play.answer(client)
        play.server.accept(client, masked[client])
    play.server.advance()
    lists = list(kept) * 2  # of the group one each, and of the others each that on which it is itself
    for client, survivors in zip((*group, *others), lists, strict=True):
        member = play.members[client]
        member.agree(survivors_for(play, client, survivors))
        revealed[client] = messages.read_revealed(named, member.reveal(signed_for(play, client, kept[survivors])))
    total = masks.words(named.bits, named.length)
    for dealer in named.clients:
        own = dealer in group
        told = [
            client for client, survivors in zip((*group, *others), lists, strict=True) if (dealer in survivors) == own
        ]
        points = {named.positions[client] + 1: revealed[client][dealer] for client in told[:4]}
        secret = shamir.joined(points)
        if own:
            masks.add_packed(total, messages.read_masked(named, masked[dealer])[1], named.bits)
            masks.take_mask(total, secrets.own_mask_key(secret, named.digest, dealer))
            continue
        for other in group:
            public = play.server._keys[other].masking
            key = secrets.pair_mask_key(secrets.private_key(secret), public, named.digest, dealer, other)
            masks.add_pair_mask(total, key, dealer, other)
    assert masks.reduced(total, named.bits).tolist() == modular_sum(named, play.vectors, group)
