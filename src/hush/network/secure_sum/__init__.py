"""The sum of many vectors, and nothing else of them: masks that cancel, by Bonawitz et al. 2017 and Bell et al. 2020.

Every two neighbours share a mask that one adds and the other takes away, and each member adds one of its own. Both
come from secrets of which shares lie with the member's circle, so that the server can have either opened: of a survivor
its own mask, of a lost member the key of its masks with others. Whoever has both of one member sees its vector.

    0  keys     fresh public keys and a random circle, signed       1  shares   of both secrets, sealed for the circle
    2  masked   the vector, and the dealers with whom, signed       3  agree    the list of survivors, signed
    4  reveal   one share of each dealer, by that list

What is proved: with at most `colluding` members on its side, a server sees no sum of fewer than threshold - colluding
honest members' vectors, whatever it says to whom (but with probability 2**-40 where circles are drawn; and as far as
X25519, HKDF, AES, SHA-256 and ECDSA hold). A server that keeps to the steps sees the sum of the survivors only.

    a server that lies tries to                        and is stopped by
    put members of its own, or in the middle           certificates: keys count if signed by an enrolled client's key
    use what was said in another round or step         the terms' digest and a purpose in every signature, key and seal
    tell one member another round than the others      the same: its context has what was told (`summing.Round`)
    surround a member with friends                     circles that members draw themselves, before anything is told
    tell some that a client survives, others that      one list, signed by the threshold of members before anybody
    it is lost, and open both its secrets              opens anything; one share of each dealer from each member
    show lists in parts, to open a small group         the same, and 2 threshold > n + colluding (`Terms`)
    let a member mask with few others and not ask      its holders look at its signature under the dealers, and whether
    it again                                           enough of its circle survive, before they open its own mask
    change shares on their way                         seals, and commitments that dealers show
    call members lost to leave a small group           the threshold, and `needed` of each circle, which is then so
                                                       connected that no small group stands alone (`odds`)

What is not stopped: more colluding members than said; a cohort chosen of few honest clients, or the same clients in
two sums of which one is in the difference (who agrees to terms looks at that); a member that sends a wrong vector, as
nobody sees it; a sum that is abandoned because somebody refuses, which shows nothing of anybody. The sum itself is
seen: what it tells is a matter of noise.
"""

from hush.network.refusals import Refused
from hush.network.secure_sum.member import STEPS, Member
from hush.network.secure_sum.signing import Credential, Verifier
from hush.network.secure_sum.summation import Summation
from hush.network.secure_sum.terms import Terms

__all__ = ["STEPS", "Credential", "Member", "Refused", "Summation", "Terms", "Verifier"]
