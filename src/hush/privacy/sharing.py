"""Examples that several clients hold: what each of them releases about such an example adds up."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from hush.privacy.releases import NoGuarantee


@dataclass(frozen=True)
class Sharing:
    """Who holds what, where an example has more than one holder."""

    holds: csr_array  # [examples, N], one where a client holds it
    most: int  # holders of one example

    def worst(self, taken: Any) -> Any:
        """How often the worst example of each client was used, by it and by all other holders, [phases, N].

        By phase: with several of them the worst of each may be another example, which counts too much and never less.
        """
        used = self.holds @ np.asarray(taken).T  # [examples, phases]
        rows, clients = self.holds.nonzero()
        found = np.zeros(np.shape(taken), np.int64)
        for phase in range(found.shape[0]):
            np.maximum.at(found[phase], clients, used[rows, phase].astype(np.int64))
        return found


def sharing(identities: Any, sizes: Any) -> Sharing | None:
    """Who shares what, from the number of the example at each place, client after client; None where nobody shares.

    >>> sharing([0, 1, 1, 2], [2, 2]).most, sharing([0, 1, 2, 3], [2, 2])
    (2, None)
    """
    places = np.asarray(identities)
    if np.bincount(places).max() == 1:  # as a rule, and quick where there are millions
        return None
    _, examples = np.unique(places, return_inverse=True)
    clients = np.repeat(np.arange(len(sizes)), np.asarray(sizes))
    holds = csr_array((np.ones(len(examples), np.int64), (examples, clients)), shape=(examples.max() + 1, len(sizes)))
    holds.sum_duplicates()
    if holds.data.max() > 1:
        raise NoGuarantee(
            "a client holds an example more than once, which then moves a sum by more than one example does; "
            "give every client different examples"
        )
    return Sharing(holds, int(np.bincount(examples).max()))
