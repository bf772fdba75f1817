"""A device joins: it is shown what it would agree to, pins it, and takes part until the run is over."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hush.core import keys
from hush.core.flat import dimension as parameters
from hush.core.flat import initial
from hush.network.agreement import Agreement, check_apart, guarantee, in_words
from hush.network.credentials import DeviceCredential
from hush.network.device import Device, rehearsed_key, system_key
from hush.network.guard import Guard, Refused
from hush.network.holding import holding
from hush.network.keeping import Keeping
from hush.network.link import Link, persistently, stay
from hush.network.membership import MemberOf
from hush.network.messages import DIGEST_BYTES, End, read_welcome, write_hello
from hush.network.secure_sum import Credential, Member
from hush.store.lock import FolderLock
from hush.store.writing import atomically

AGREEMENT, STATE = "agreement.toml", "device.npz"  # what lies in a device's folder
MARGIN = 4096  # bytes of a welcome beside the agreement
FEWEST_DIGITS = 16  # of a digest by which an owner agrees beforehand

Consent = Callable[[dict[str, str]], bool]  # an owner is shown the agreement in words, and says yes or no


def join(
    link: Link,
    client: int,
    data: str,
    folder: str | Path,
    *,
    consent: Consent,
    label: str = "y",
    epsilon: float | None = None,
    again: bool = False,
    rehearse: bool = False,
    credential: DeviceCredential | None = None,
    patience: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = print,
) -> End | None:
    """Take part in a federation with this client's data until it is over, or until stopped.

    data, label   where the examples are: see `holding`
    folder        where this device keeps its agreement, its ledger and what it remembers; nobody else's business
    consent       asked once, before the first round; afterwards another agreement is refused
    epsilon       what this device may spend at most, where that is less than was agreed
    again         take part in a new run under the same agreement: what was spent counts on
    rehearse      whether this device may take part in a rehearsal, which protects nobody
    credential    what this device was enrolled with, for secure sums
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o700)
    lock = FolderLock(place)
    lock.acquire()
    with contextlib.ExitStack() as stack:
        stack.callback(lock.release)
        agreement = agreed(link, place, consent, patience, stopped, say)
        if agreement is None:
            return None
        device = prepared(agreement, client, data, place, label, epsilon, again, rehearse, credential)
        link.expect(max(device.longest_told, len(agreement.text) + MARGIN))
        return stay(link, device, patience=patience, stopped=stopped, say=say)


def agreed(
    link: Link,
    folder: Path,
    consent: Consent,
    patience: float | None,
    stopped: Callable[[], bool],
    say: Callable[[str], None],
) -> Agreement | None:
    """The agreement that is pinned here, or the server's once the owner has agreed to it."""
    path = folder / AGREEMENT
    pinned = Agreement(path.read_text(encoding="utf-8")) if path.exists() else None
    hello = write_hello(b"" if pinned is None else pinned.digest)
    answer = persistently(lambda: link.hello(hello), patience=patience, stopped=stopped, say=say)
    if answer is None:
        return None
    offered = Agreement(read_welcome(answer).agreement)
    if pinned is not None:
        if offered != pinned:
            raise Refused(f"the server offers agreement {offered.name}, and {pinned.name} is pinned in {folder}")
        return pinned
    experiment = offered.experiment
    if not consent(in_words(offered, experiment.algorithm, experiment.problem())):
        raise Refused(f"the owner has not agreed to {offered.name}")
    atomically(path, lambda file: file.write(offered.text.encode()))
    return offered


def by_digest(digest: str) -> Consent:
    """The consent of an owner who has looked at the agreement before, and names it."""
    named = check_digest(digest)
    return lambda words: words["agreement"].startswith(named)


def check_digest(digest: str) -> str:
    """The digits by which an owner names an agreement: enough of them, and all are compared."""
    found = digest.lower()
    if not FEWEST_DIGITS <= len(found) <= 2 * DIGEST_BYTES or set(found) - set("0123456789abcdef"):
        raise ValueError(
            f"an agreement is named by {FEWEST_DIGITS} to {2 * DIGEST_BYTES} hexadecimal digits of its digest, found "
            f"{digest!r}"
        )
    return found


def prepared(
    agreement: Agreement,
    client: int,
    data: str,
    folder: Path,
    label: str = "y",
    epsilon: float | None = None,
    again: bool = False,
    rehearse: bool = False,
    credential: DeviceCredential | None = None,
) -> Device:
    """The device that an agreement and its owner's data make: all is checked before it takes part."""
    seed = agreement.rehearsal
    if seed is not None and not rehearse:
        raise Refused(
            "this is a rehearsal, in which all randomness comes from a seed that everybody knows: nothing is "
            "protected; to take part all the same, say --rehearse"
        )
    experiment = agreement.experiment
    problem, run = experiment.problem(), experiment.run
    agreement.check(problem.population)
    size = parameters(problem)
    found, _ = guarantee(experiment.algorithm, problem, run)
    if seed is None:
        check_apart(found)
    if epsilon is not None and found is None:
        raise Refused("no privacy is promised here, so that no epsilon can be kept; see the agreement")
    most: dict[str, Any] = {"epsilon": None}
    if found is not None:
        agreed_to = run.epsilon if run.epsilon is not None else found.most(run.delta)
        most = {"epsilon": min(agreed_to, agreed_to if epsilon is None else epsilon), "trust": found.first.trust}
        most["unit"] = found.first.unit
    assert run.rounds is not None  # `guarantee` has asked
    limits: dict[str, Any] = {
        "dimension": size,
        "rounds": run.rounds,
        "delta": run.delta,
        "rehearsal": seed is not None,
    }
    guard = Guard(experiment.algorithm, problem.population, client, **limits, **most)
    return Device(
        agreement.digest,
        holding(data, problem, client, label),
        guard,
        Keeping(folder / STATE),
        system_key if seed is None else rehearsed_key(seed, client),
        None if seed is None else initial(problem, keys.at(keys.root(seed), "repetition", 0, "init")),
        again,
        None if credential is None else member_of(client, credential),
    )


def member_of(client: int, credential: DeviceCredential) -> MemberOf:
    """This client in secure sums: it signs with the key that it was enrolled with, and knows others by theirs."""
    signing = Credential.read(credential)
    return lambda terms: Member(terms, client, signing)
