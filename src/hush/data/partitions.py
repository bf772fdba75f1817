"""How a training set is cut into clients: labels in, one array of indices per client out.

Every function is deterministic in `seed`, leaves no client empty, gives a client no example twice, and
returns each client's indices in ascending order (that of the dataset, which is mixed in all of ours).
`labels` are whole numbers [n], of any values; the classes are those that occur.

    >>> [share.tolist() for share in classes_per_client([3, 5, 3, 5, 3, 5], clients=2, classes=1, seed=0)]
    [[0, 2, 4], [1, 3, 5]]
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

from hush.core.check import at_least, integer, positive
from hush.core.check import seed as check_seed
from hush.core.memory import check_room, on_host

Indices = npt.NDArray[np.int64]
ARRAY = 112  # bytes that an array takes beside its numbers
Counts = npt.NDArray[np.int64]  # examples per [client, class]


def iid(
    labels: npt.ArrayLike, clients: int, seed: int, examples: int | None = None, overlap: bool = False
) -> list[Indices]:
    """Equal shares at random: all examples, sizes differing by at most one, or `examples` for every client.

    With `overlap` each client draws its own set without replacement, independently of the others
    (n // clients examples unless told), as on Cifar-10 in paper clipping, section II: 500 per client, there with
    equal numbers of each class, here in expectation.
    """
    size = len(_classes(labels)[0])
    integer("clients", clients, 1, None if overlap else size)
    if examples is not None:
        integer("examples", examples, 1, size if overlap else size // clients)
    if overlap:
        each = examples or max(size // clients, 1)
        _check_room(clients, each)
        draws = (_generator(seed, "iid overlap", k).choice(size, each, replace=False) for k in range(clients))
        return [np.sort(draw) for draw in draws]
    order = _generator(seed, "iid").permutation(size)
    if examples is not None:
        order = order[: clients * examples]
    return [np.sort(share) for share in np.array_split(order, clients)]


def classes_per_client(
    labels: npt.ArrayLike, clients: int, classes: int, seed: int, most_dropped: float = 0.1
) -> list[Indices]:
    """Each client holds exactly `classes` classes: HET_MNIST(classes) of paper fedpaq-dp, section IV-1.

    No example is used twice, and every class is held by some client if clients * classes allows it. All
    clients have the same size, the largest that the drawn classes allow, so a few examples may stay
    unused. Only if that would drop more than `most_dropped` of them (one class far smaller than the others)
    are the sizes unequal: each class is then dealt out completely and evenly to those who hold it.
    """
    class_of, supply = _classes(labels)
    integer("clients", clients, 1, len(class_of))
    integer("classes", classes, 1, len(supply))
    if not 0 <= most_dropped <= 1:
        raise ValueError(f"most_dropped is {most_dropped!r}, allowed are numbers from 0 to 1")
    generator = _generator(seed, "classes per client")
    holds = _who_holds(supply, clients, classes, generator)
    supply = np.where(holds.any(axis=0), supply, 0)
    counts = _equal_counts(holds, supply)
    if counts.sum() < (1 - most_dropped) * supply.sum():
        holders, rank = np.maximum(holds.sum(axis=0), 1), np.cumsum(holds, axis=0) - 1
        counts = np.where(holds, supply // holders + (rank < supply % holders), 0)
    return _assign(class_of, counts, generator)


def dominant_classes(
    labels: npt.ArrayLike, clients: int, examples: int, dominant: int = 2, share: float = 0.92, *, seed: int
) -> list[Indices]:
    """Each client has `share` of its examples from `dominant` classes, the rest evenly from all the others.

    Paper clipping, section II, non-IID: 2 classes hold 92 %, the other 8 hold 1 % each (EMNIST digits, 125
    examples); a client's whole numbers are within one of that. Clients are disjoint while supplies last: a
    class that has run out is dealt again from its beginning, so the mixture stays exact and some clients
    then share examples. Refused if one client alone would need more of a class than there is.
    """
    class_of, supply = _classes(labels)
    kinds = len(supply)
    integer("clients", clients, 1)
    integer("examples", examples, 1, len(class_of))
    integer("dominant", dominant, 1, kinds)
    if not 0 < share <= 1 or (dominant == kinds and share != 1):
        raise ValueError(f"share is {share}, allowed is 0 < share <= 1, and only 1 if every class is dominant")
    _check_room(clients, examples + 3 * kinds)
    major = round(share * examples)
    if major < dominant:
        raise ValueError(f"{share} of {examples} examples is {major}, needed is 1 for each of {dominant} classes")
    generator = _generator(seed, "dominant classes")
    holds = _who_holds(supply, clients, dominant, generator, reuse=True)
    counts = _mixture(holds, supply, major, examples - major, generator)
    if (short := (counts > supply).any(axis=0)).any():
        need, have = counts.max(axis=0)[short][0], supply[short][0]
        raise ValueError(f"a client would need {need} examples of a class that has {have}: lower examples or share")
    return _assign(class_of, counts, generator)


def dirichlet(labels: npt.ArrayLike, clients: int, alpha: float, seed: int, minimum: int = 1) -> list[Indices]:
    """Each class is shared out in proportions from a symmetric Dirichlet(alpha), every example used once.

    Yurochkin et al., Bayesian nonparametric federated learning of neural networks, ICML 2019. Instead of
    drawing again until nobody is empty, clients below `minimum` get examples from whoever has most at that
    moment.
    """
    class_of, supply = _classes(labels)
    _check_share(len(class_of), clients, minimum)
    positive("alpha", alpha, largest=float("inf"))
    generator = _generator(seed, "dirichlet")
    # Beyond these limits the shares are all or nothing, or equal, anyway, and the sampler may overflow.
    concentration = np.full(clients, min(max(alpha, 1e-8), 1e12))
    ends = np.cumsum(generator.dirichlet(concentration, len(supply)), axis=1).T
    ends[-1] = 1.0
    counts = np.rint(ends * supply).astype(np.int64)
    counts[1:] -= counts[:-1].copy()
    return _assign(class_of, _at_least(counts, minimum), generator)


def power_law(labels: npt.ArrayLike, clients: int, exponent: float, seed: int, minimum: int = 1) -> list[Indices]:
    """Sizes are minimum + a share proportional to rank ** -exponent, ranks and examples dealt at random.

    Every example is used once. exponent = 0 is `iid`, 1 is Zipf's law.
    """
    size = len(_classes(labels)[0])
    _check_share(size, clients, minimum)
    at_least("exponent", exponent, 0)
    generator = _generator(seed, "power law")
    weights = np.arange(1, clients + 1) ** -float(exponent)
    edges = np.rint(np.cumsum(weights) / weights.sum() * (size - clients * minimum)).astype(np.int64)
    sizes = generator.permutation(minimum + np.diff(edges, prepend=0))
    order = generator.permutation(size)
    return [np.sort(share) for share in np.split(order, np.cumsum(sizes)[:-1])]


def by_client_id(client_ids: npt.ArrayLike) -> tuple[list[Indices], list[str]]:
    """The examples of each client that the data itself names, and the names, sorted (numbers by value)."""
    ids = as_ids(client_ids)
    names, client_of, sizes = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(client_of, kind="stable").astype(np.int64)
    return np.split(order, np.cumsum(sizes)[:-1]), names.astype(str).tolist()


def as_ids(client_ids: npt.ArrayLike) -> npt.NDArray[Any]:
    """Ids of clients as whole numbers or text [n]."""
    ids = np.asarray(client_ids)
    if ids.dtype.kind == "O":
        whole_numbers = all(isinstance(each, int | np.integer) and not isinstance(each, bool) for each in ids.flat)
        if not whole_numbers and not all(isinstance(each, str) for each in ids.flat):
            kinds = sorted({type(each).__name__ for each in ids.flat})
            raise ValueError(f"client_ids are objects ({', '.join(kinds)}), allowed are whole numbers or strings [n]")
        ids = ids.astype(np.int64 if whole_numbers else str)
    if ids.ndim != 1 or not ids.size or ids.dtype.kind not in "iuUS":
        raise ValueError(f"client_ids are {ids.dtype} {list(ids.shape)}, allowed are whole numbers or strings [n]")
    return ids if ids.dtype.kind != "S" else np.char.decode(ids)


def set_aside(size: int, share: float, seed: int) -> tuple[Indices, Indices, Indices]:
    """A share of so many examples that is dealt to no client, drawn at random, in two parts; and the rest.

    The first part is a fifth of what is set aside, the second the other four.

    >>> [len(part) for part in set_aside(1000, 0.1, seed=0)]
    [20, 80, 900]
    """
    positive("set_aside", share)
    count = round(share * size) if share < 1 else size
    if not 2 <= count < size:
        raise ValueError(
            f"set_aside must be a share above 0 and below 1 that leaves some of {size} examples and takes two or more, "
            f"found {share!r}"
        )
    order = _generator(seed, "set aside").permutation(size)
    first, second, rest = (np.sort(part) for part in np.split(order, [max(count // 5, 1), count]))
    return first, second, rest


# What clients hold, as counts per [client, class].


def _who_holds(
    supply: Counts, clients: int, classes: int, generator: np.random.Generator, reuse: bool = False
) -> npt.NDArray[np.bool_]:
    """Which client holds which class [client, class]: `classes` for each client, at random.

    The number of holders per class is Jefferson's apportionment by class size: it makes the smallest share
    that a holder gets as large as it can be.
    """
    most = np.full(len(supply), clients) if reuse else np.minimum(supply, clients)
    if most.sum() < clients * classes:
        raise ValueError(
            f"{clients} clients with {classes} classes each need {clients * classes} examples, of which no "
            f"two of one class are one client's; found are {most.sum()} (class sizes {supply.tolist()})"
        )
    quotients = supply[:, None] / np.arange(1, clients + 1) * (1 + 1e-9 * generator.random((len(supply), 1)))
    if clients * classes >= len(supply):
        quotients[:, 0] = np.inf  # every class gets a holder first
    quotients[np.arange(clients) >= most[:, None]] = -1
    best = np.argsort(-quotients, axis=None, kind="stable")[: clients * classes]
    left = np.bincount(best // clients, minlength=len(supply))
    holds = np.zeros((clients, len(supply)), dtype=bool)
    draws = generator.random(holds.shape)
    for row in range(clients):
        # Weighted sampling without replacement (Efraimidis and Spirakis 2006). A class that still needs all
        # clients left must be taken now: with that, the last client always finds enough classes.
        keys = np.where(left > 0, draws[row] ** (1 / np.maximum(left, 1)), -1.0)
        keys[left == clients - row] = 2.0
        chosen = np.argsort(-keys)[:classes]
        holds[row, chosen] = True
        left[chosen] -= 1
    return holds


def _equal_counts(holds: npt.NDArray[np.bool_], supply: Counts) -> Counts:
    """Counts with one size for all clients, the largest possible; a class's holders as equal as can be."""
    clients = len(holds)
    least, most = holds.astype(np.int64), holds * supply
    low, size = int(least[0].sum()), int(supply.sum()) // clients
    if _transport(least, most, size, supply) is None:
        sizes = range(low, size)  # the lowest always fits: one example of each class held
        size = low + bisect_left(sizes, True, key=lambda n: _transport(least, most, n, supply) is None) - 1
    fair = holds * (supply / np.maximum(holds.sum(axis=0), 1)) * (size * clients / supply.sum())
    for spread in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        lower = np.maximum(np.floor(fair * (1 - spread)).astype(np.int64), least)
        upper = np.minimum(np.ceil(fair * (1 + spread)).astype(np.int64), most)
        if (counts := _transport(lower, upper, size, supply)) is not None:
            return counts
    counts = _transport(least, most, size, supply)
    assert counts is not None
    return counts


def _transport(lower: Counts, upper: Counts, size: int, supply: Counts) -> Counts | None:
    """Whole numbers from lower to upper, rows adding up to size, no column above supply: a network flow.

    None if there are none.
    """
    clients, kinds = lower.shape
    need, spare = size - lower.sum(axis=1), supply - lower.sum(axis=0)
    if (need < 0).any() or (spare < 0).any() or (upper < lower).any():
        return None
    rows, columns = np.nonzero(upper - lower)
    sink = clients + kinds + 1  # nodes: the source, the clients, the classes, the sink
    tails = np.concatenate([np.zeros(clients, int), 1 + rows, 1 + clients + np.arange(kinds)])
    heads = np.concatenate([1 + np.arange(clients), 1 + clients + columns, np.full(kinds, sink)])
    capacity = np.concatenate([need, (upper - lower)[rows, columns], spare]).astype(np.int32)
    result = maximum_flow(coo_array((capacity, (tails, heads)), shape=(sink + 1, sink + 1)).tocsr(), 0, sink)
    if result.flow_value < need.sum():
        return None
    flow = result.flow[1 : 1 + clients, 1 + clients : sink].toarray()
    return lower + np.asarray(flow, dtype=np.int64)


def _mixture(
    holds: npt.NDArray[np.bool_], supply: Counts, major: int, minor: int, generator: np.random.Generator
) -> Counts:
    """`major` examples of the classes held, `minor` of the others, evenly; odd ones where most is left."""
    odd = np.zeros(holds.shape, dtype=bool)
    counts = np.zeros(holds.shape, dtype=np.int64)
    extras = []
    for among, total in ((holds, major), (~holds, minor)):
        even, extra = divmod(total, max(int(among[0].sum()), 1))
        counts += among * even
        extras.append((among, extra))
    left, ties = supply - counts.sum(axis=0), generator.random(holds.shape)
    for row in range(len(holds)):
        for among, extra in extras:
            best = np.argsort(np.where(among[row], -left - ties[row], np.inf))[:extra]
            odd[row, best] = True
            left[best] -= 1
    # Dealing in order may overdraw a class by a few while another keeps as many: trade odd ones between them.
    for lacking in np.flatnonzero(left < 0):
        for spare in np.flatnonzero(left > 0):
            tradable = odd[:, lacking] & ~odd[:, spare] & (holds[:, lacking] == holds[:, spare])
            rows = np.flatnonzero(tradable)[: max(min(-left[lacking], left[spare]), 0)]
            odd[rows, lacking], odd[rows, spare] = False, True
            left[[lacking, spare]] += (len(rows), -len(rows))
    return counts + odd


def _at_least(counts: Counts, minimum: int) -> Counts:
    """Move single examples from the largest client, out of its largest class, to those below `minimum`."""
    sizes = counts.sum(axis=1)
    for needy in np.flatnonzero(sizes < minimum):
        while sizes[needy] < minimum:
            donor = np.argmax(sizes)
            kind = np.argmax(counts[donor])
            counts[[donor, needy], kind] += (-1, 1)
            sizes[[donor, needy]] += (-1, 1)
    return counts


def _assign(class_of: Indices, counts: Counts, generator: np.random.Generator) -> list[Indices]:
    """Random examples in these counts; a class that has run out is dealt again in the same order."""
    owners, dealt = [], []
    for kind, column in enumerate(counts.T):
        pool = generator.permutation(np.flatnonzero(class_of == kind))
        owners.append(np.repeat(np.arange(len(counts)), column))
        dealt.append(pool[np.arange(column.sum()) % len(pool)])
    owner, example = np.concatenate(owners), np.concatenate(dealt)
    ordered = example[np.lexsort((example, owner))]
    return np.split(ordered, np.cumsum(counts.sum(axis=1))[:-1])


# Addresses and arguments.


def _generator(seed: int, purpose: str, *address: int) -> np.random.Generator:
    """Randomness of its own for each (seed, purpose, address)."""
    check_seed("seed", seed)
    key = (zlib.crc32(purpose.encode()), *address)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def _classes(labels: npt.ArrayLike) -> tuple[Indices, Counts]:
    """The class of each example, counted from 0, and the examples of each class."""
    given = np.asarray(labels)
    if given.ndim != 1 or not given.size or given.dtype.kind not in "iu":
        raise ValueError(f"labels are {given.dtype} {list(given.shape)}, allowed are whole numbers [n] with n >= 1")
    _, class_of, supply = np.unique(given, return_inverse=True, return_counts=True)
    return class_of.astype(np.int64), supply.astype(np.int64)


def _check_room(clients: int, each: int) -> None:
    """Refuse so many row numbers, of eight bytes each, in so many arrays, that there is no memory for them."""
    parts = {f"{clients:,} clients of {each:,} row numbers": clients * (8 * each + ARRAY)}
    check_room("this partition", parts, "make it of fewer clients, or of fewer examples each", on_host())


def _check_share(size: int, clients: int, minimum: int) -> None:
    integer("clients", clients, 1, size)
    integer("minimum", minimum, 1, size // clients)
