"""What a secure sum costs a device and the server, beside the plain sum of the same vectors.

    python benchmarks/secure_sum.py              up to 1,000 members (two or three minutes)
    python benchmarks/secure_sum.py --quick      up to 100 members
    python benchmarks/secure_sum.py --json FILE  the numbers as well

Devices are simulated in this process, message by message, without a network; one in twenty is lost after it has dealt
shares, which is the dearest moment. Where 1,000 all hold shares of all, only the server's unmasking is measured, with
shares that are made up to fit. Times are of the processor, for one core. Plain is what a server does where nothing is
hidden: unpack every vector and add it.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hush.network.certificates import new_authority, new_device
from hush.network.secure_sum import STEPS, Credential, Member, Summation, Terms, Verifier, masks, secrets, shamir
from hush.network.secure_sum.messages import Keys
from hush.network.secure_sum.opening import Opening

BITS, LENGTH, COLLUDING, ABSENT = 20, 100_000, 0.05, 0.05
MANY, NEIGHBOURS = 1_000_000, 100
MEMBERS = {True: (10, 50, 100), False: (10, 50, 100, 300, 1000)}  # by whether it is to be quick
LARGEST_WHOLE = 300
Row = tuple[str, str, str]
Found = TypeVar("Found")


class Enrolled:
    """Devices with certificates, enough for the largest cohort."""

    def __init__(self, devices: int) -> None:
        authority = new_authority()
        self.verifier = Verifier(authority.certificate)
        made = [new_device(authority, f"device-{client}", client, 30) for client in range(devices)]
        self.credentials = [
            Credential.of(each, authority.certificate)._replace(verifier=self.verifier) for each in made
        ]


class Played:
    """One sum, with the seconds that each side took and the bytes that went either way."""

    def __init__(self, enrolled: Enrolled, terms: Terms) -> None:
        self.terms, self.server = terms, Summation(terms, enrolled.verifier)
        self.members = [Member(terms, client, enrolled.credentials[client]) for client in terms.clients]
        self.seconds: dict[str, float] = defaultdict(float)
        self.sent: dict[int, int] = defaultdict(int)
        self.told: dict[int, int] = defaultdict(int)
        self.vector = np.random.default_rng(0).integers(0, 2**terms.bits, terms.length, np.uint32)

    def timed(self, who: str, call: Callable[..., Found], *arguments: Any) -> Found:
        begin = time.process_time()
        found = call(*arguments)
        self.seconds[who] += time.process_time() - begin
        return found

    def run(self, until: int = len(STEPS)) -> None:
        while self.server.step < until:
            losing = self.server.step == STEPS.index("masked")
            for client in self.server.asked:
                if not (losing and is_lost(client)):
                    self.exchange(client)
            last = "unmasking" if self.server.step == len(STEPS) - 1 else "server"
            if not self.timed(last, self.server.advance):
                raise SystemExit(f"the sum was abandoned: {self.server.abandoned}")

    def exchange(self, client: int) -> None:
        told = self.timed("server", self.server.tell, client)
        answer = self.timed("devices", self.answer, client, told)
        self.timed("server", self.server.accept, client, answer)
        self.told[client] += len(told)
        self.sent[client] += len(answer)

    def answer(self, client: int, told: bytes) -> bytes:
        member, step = self.members[client], STEPS[self.server.step]
        if step == "keys":
            return member.keys()
        more = (self.vector,) if step == "masked" else ()
        return getattr(member, step)(told, *more)


def device_masks(enrolled: Enrolled) -> list[Row]:
    """One device's step of masks, of a million numbers with a hundred neighbours."""
    clients = tuple(range(NEIGHBOURS + 1))
    play = Played(
        enrolled, Terms(b"masks", clients, NEIGHBOURS // 2 + 2, BITS, MANY, 0, NEIGHBOURS, NEIGHBOURS // 2 + 2)
    )
    play.run(until=STEPS.index("masked"))
    before = play.seconds["devices"]
    play.timed("devices", play.answer, 0, play.server.tell(0))
    took = play.seconds["devices"] - before
    total, vector = masks.words(BITS, MANY), play.vector
    begin = time.process_time()
    for _ in range(NEIGHBOURS):
        total += vector
    adding = time.process_time() - begin
    shown = f"{took / adding:.1f} × adding {NEIGHBOURS} such vectors; under 10 s is asked for"
    return [(f"a device masks {MANY:,} numbers with {NEIGHBOURS} neighbours", f"{took:.2f} s", shown)]


def one_sum(enrolled: Enrolled, terms: Terms) -> list[Row]:
    """A whole sum, beside the plain one."""
    play = Played(enrolled, terms)
    play.run()
    survivors = play.server.survivors
    packed = masks.packed(play.vector.astype("<u4"), BITS)
    plain = play.timed("plain", added, terms, [packed] * len(survivors))
    if not np.array_equal(play.server.total(), plain):
        raise SystemExit("the sum is NOT EQUAL to the plain one")
    members, kind = len(terms.clients), "all" if terms.whole else f"{terms.chosen} chosen"
    name = f"{members} members, {members - len(survivors)} lost, shares with {kind}"
    server, unmasking, seconds = play.seconds["server"], play.seconds["unmasking"], play.seconds["plain"]
    one, size = survivors[0], len(packed)
    return [
        (
            f"{name}: the server unmasks",
            f"{unmasking:.3f} s",
            f"{unmasking / seconds:.1f} × the plain sum; {server:.2f} s before, for all messages",
        ),
        (
            f"{name}: a device",
            f"{1e3 * play.seconds['devices'] / members:.0f} ms",
            f"sends {play.sent[one] / size:.2f} ×, is told {play.told[one] / size:.2f} × its vector's {size:,} bytes",
        ),
    ]


def added(terms: Terms, packed: list[bytes]) -> Any:
    total = masks.words(terms.bits, terms.length)
    for each in packed:
        masks.add_packed(total, each, terms.bits)
    return masks.reduced(total, terms.bits)


def unmasking_alone(terms: Terms) -> list[Row]:
    """The end of a sum, where shares are drawn first and the last of each is what gives the secret."""
    survivors = frozenset(client for client in terms.clients if not is_lost(client))
    holders = sorted(survivors)[: terms.needed]
    weights = shamir.weights(tuple(terms.positions[holder] + 1 for holder in holders))
    last_weight = pow(weights[-1], -1, shamir.PRIME)
    keys, commitments = {}, {}
    revealed: dict[int, dict[int, bytes]] = {client: {} for client in survivors}
    for client in terms.clients:
        secret = os.urandom(shamir.SECRET_BYTES)
        public = secrets.public_of(secrets.private_key(secret))
        keys[client] = Keys(client, b"", public, b"", b"", b"")
        commitments[client] = secrets.commitment(secret, secrets.COMMITTED, terms.digest, client)
        shares = [int.from_bytes(os.urandom(32), "little") for _ in holders[1:]]
        missing = int.from_bytes(secret, "little") - sum(map(operator.mul, weights, shares))
        shares.append(missing * last_weight % shamir.PRIME)
        for holder, share in zip(holders, shares, strict=True):
            revealed[holder][client] = share.to_bytes(shamir.SHARE_BYTES, "little")
    circles = dict.fromkeys(terms.clients, terms.everybody)
    shamir.weights.cache_clear()
    opening = Opening(terms, keys, circles, commitments, survivors, revealed)
    begin = time.process_time()
    if (wrong := opening.unmask(masks.words(terms.bits, terms.length))) is not None:
        raise SystemExit(wrong)
    took, begin = time.process_time() - begin, time.process_time()
    added(terms, [bytes(-(-terms.bits * terms.length // 8))] * len(survivors))
    beside = f"{took / (time.process_time() - begin):.1f} × the plain sum"
    members = len(terms.clients)
    name = f"{members} members, {members - len(survivors)} lost, shares with all: the server unmasks"
    return [(name, f"{took:.3f} s", beside)]


def cohorts(enrolled: Enrolled, quick: bool) -> list[Row]:
    """The same for more and more members, with shares among all and in circles."""
    rows = []
    for members in MEMBERS[quick]:
        found = Terms.of(b"benchmark", tuple(range(members)), BITS, LENGTH, colluding=COLLUDING, absent=ABSENT)
        whole = Terms(b"b", found.clients, found.threshold, BITS, LENGTH, found.colluding, members - 1, found.threshold)
        print(f"{members} members …", file=sys.stderr, flush=True)
        rows += one_sum(enrolled, whole) if members <= LARGEST_WHOLE else unmasking_alone(whole)
        if not found.whole:
            rows += one_sum(enrolled, found)
    return rows


def is_lost(client: int) -> bool:
    return client % int(1 / ABSENT) == 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer members")
    parser.add_argument("--json", type=Path, help="write the rows to this file, too")
    chosen = parser.parse_args()
    load = [os.getloadavg()[0]]
    enrolled = Enrolled(max(NEIGHBOURS + 1, *MEMBERS[chosen.quick]))
    rows = device_masks(enrolled) + cohorts(enrolled, chosen.quick)
    load.append(os.getloadavg()[0])
    print(f"d = {LENGTH:,} numbers of {BITS} bits, {COLLUDING:.0%} may collude\n")
    print("| what | found | beside |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(
        f"\n{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"load {load[0]:.1f} at the start and {load[1]:.1f} at the end"
    )
    if chosen.json:
        chosen.json.write_text(json.dumps({"load": load, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
