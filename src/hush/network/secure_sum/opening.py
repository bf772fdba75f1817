"""The end of a secure sum: shares are joined to the secrets that may be known, and the masks that they make taken away.

Of a survivor it is its own mask; of a member that was lost after it had dealt shares, the key of its masks with the
survivors. A secret that does not fit what its dealer showed before means that it lied.
"""

from collections.abc import Mapping
from typing import NamedTuple

from hush.network.secure_sum import masks, secrets, shamir
from hush.network.secure_sum.circles import Clients
from hush.network.secure_sum.messages import Keys
from hush.network.secure_sum.terms import Terms


class Opening(NamedTuple):
    """What is known in the end, by client."""

    terms: Terms
    keys: Mapping[int, Keys]
    circles: Mapping[int, Clients]
    commitments: Mapping[int, bytes]  # of every dealer, to the secret of its own mask
    survivors: Clients
    revealed: Mapping[int, Mapping[int, bytes]]  # by who revealed it: the share of each dealer

    def unmask(self, total: masks.Words) -> str | None:
        """Take all masks away from the sum of the survivors, in place; why it cannot be, where it cannot."""
        for dealer in sorted(self.commitments):
            # The first ones, so that dealers with the same circle have the same holders, and share their weights.
            holders = sorted(self.circles[dealer] & self.revealed.keys())[: self.terms.needed]
            points = {self.terms.positions[holder] + 1: self.revealed[holder][dealer] for holder in holders}
            secret = shamir.joined(points)
            if secret is None or not self._fits(dealer, secret):
                return f"client {dealer} lied: the shares that it dealt are not of what it showed before"
            if dealer in self.survivors:
                masks.take_mask(total, secrets.own_mask_key(secret, self.terms.digest, dealer))
            else:
                self._cancel(total, dealer, secret)
        return None

    def _fits(self, dealer: int, secret: bytes) -> bool:
        if dealer in self.survivors:
            found = secrets.commitment(secret, secrets.COMMITTED, self.terms.digest, dealer)
            return secrets.same(found, self.commitments[dealer])
        return secrets.same(secrets.public_of(secrets.private_key(secret)), self.keys[dealer].masking)

    def _cancel(self, total: masks.Words, lost: int, secret: bytes) -> None:
        """Add what the lost member would have added: it cancels what the survivors did."""
        private = secrets.private_key(secret)
        for other in self.survivors:
            if other in self.circles[lost] or lost in self.circles[other]:
                key = secrets.pair_mask_key(private, self.keys[other].masking, self.terms.digest, lost, other)
                masks.add_pair_mask(total, key, lost, other)
