"""How two shares go from their dealer to their holder past a server that carries them: sealed, and known again later.

The dealer shows the server a commitment to every share, and the holder checks that it has what was committed to. From
then on whoever reveals another share is known at once, and where shares that are all as committed do not give the
secret, it is the dealer who lied.
"""

from hush.network.refusals import Refused
from hush.network.secure_sum import secrets
from hush.network.secure_sum.messages import Dealt
from hush.network.secure_sum.secrets import Private
from hush.network.secure_sum.shamir import SHARE_BYTES, share_number
from hush.network.secure_sum.terms import Terms

Pair = tuple[bytes, bytes]  # a share of the dealer's mask key, and one of its own mask
Commitments = tuple[bytes, bytes]


def deal(terms: Terms, dealer: int, holder: int, private: Private, public: bytes, pair: Pair) -> Dealt:
    """What the dealer, with its private key, sends to the holder of the public one."""
    key = secrets.pair_key(private, public, secrets.SHARES, terms.digest, dealer, holder)
    sealed = secrets.sealed(key, b"".join(pair), _bound(terms, dealer, holder))
    return Dealt(sealed, *commitments(terms, dealer, holder, pair))


def receive(terms: Terms, dealer: int, holder: int, private: Private, public: bytes, dealt: Dealt) -> Pair:
    """The reverse of `deal`, with the keys of the other side; refused where it is not what the dealer dealt."""
    key = secrets.pair_key(private, public, secrets.SHARES, terms.digest, dealer, holder)
    plain = secrets.opened(key, dealt.sealed, _bound(terms, dealer, holder))
    if plain is None:
        raise Refused(f"the shares of client {dealer} for client {holder} were not sealed by it for this")
    pair = plain[:SHARE_BYTES], plain[SHARE_BYTES:]
    for share in pair:
        share_number(share)
    if not all(map(secrets.same, commitments(terms, dealer, holder, pair), (dealt.of_key, dealt.of_own))):
        raise Refused(f"the shares of client {dealer} for client {holder} are not those that it committed to")
    return pair


def commitments(terms: Terms, dealer: int, holder: int, pair: Pair) -> Commitments:
    """By what both shares of a holder are known again."""
    of_key, of_own = (commitment(terms, dealer, holder, own, pair[own]) for own in (False, True))
    return of_key, of_own


def commitment(terms: Terms, dealer: int, holder: int, own: bool, share: bytes) -> bytes:
    """By what one is: of the dealer's own mask, or of its mask key."""
    return secrets.commitment(share, secrets.COMMITTED_SHARES[own], terms.digest, dealer, holder)


def _bound(terms: Terms, dealer: int, holder: int) -> bytes:
    return secrets.purposed(secrets.SHARES, terms.digest, dealer, holder)
