"""What is claimed against what an attack can show, for every private algorithm: the table of docs/auditing.md.

    python benchmarks/auditing.py                     all of them (minutes on 2 cores); what is there is not made again
    python benchmarks/auditing.py --only air          those whose name has this in it
    python benchmarks/auditing.py --anew              all of them anew
    python benchmarks/auditing.py --table             print the table of what is there, as Markdown

Each is attacked by neighbouring pairs: many runs of a crafted worst case, with and without one unit, seen by the
strongest adversary that the claim covers. Written as it goes to docs/results/auditing.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from hush.cores import compile_quickly

compile_quickly()  # as the command does

import hush  # noqa: E402
from hush.audits import Finding, audit_pairs  # noqa: E402
from hush.audits.answer import verdict_of  # noqa: E402
from hush.channel import Alignment, Constant, Each, FullPower, Noisy  # noqa: E402
from hush.cohort import Everyone, Uniform  # noqa: E402
from hush.local import ClippedPerExample, ControlVariate, Full, LocalSGD, Scaffold  # noqa: E402
from hush.privacy import EqualClients  # noqa: E402
from hush.privacy.shown import rounded_down, rounded_up  # noqa: E402
from hush.server import AddWithControl, Median  # noqa: E402
from hush.store import atomically  # noqa: E402
from hush.uplink import Clip  # noqa: E402

WHERE = Path(__file__).parents[1] / "docs" / "results" / "auditing.json"
DELTA, LANES, SEED = 1e-5, 8192, 0
CLIENTS = EqualClients(20, 16)
Row = dict[str, Any]


@dataclass(frozen=True)
class Private:
    """A private algorithm, and for how long it runs."""

    make: Callable[[], Any]
    rounds: int = 4
    trust: str | None = None


def fedavg(clients: int = 4, z: float = 1.0, **settings: Any) -> Any:
    """DP-FedAvg of twenty clients."""
    plain = {"clip": 1.0, "noise_multiplier": z, "lr": 0.1, "steps": 1}
    return hush.dp_fedavg(clients, 20, **(plain | settings))


def fedpaq(**settings: Any) -> Any:
    """Private FedPAQ, all of a client's data in one step unless it is said otherwise."""
    plain = {"steps": 1, "batch": None, "noise_multiplier": 2.0, "lr": 0.1}
    return hush.private_fedpaq(4, **(plain | settings))


def summed(**settings: Any) -> Any:
    """DP-FedAvg in whole numbers, of which sums of all that take part are seen."""
    plain = {
        "clip": 1.0,
        "dimension": 16,
        "threshold": 5,
        "colluding": 0,
        "noise_multiplier": 4.0,
        "lr": 0.1,
        "steps": 1,
    }
    return hush.secure_dp_fedavg(5, CLIENTS.clients, **(plain | settings))


def air(**settings: Any) -> Any:
    """Aligned clients in a channel that does not fade."""
    channel = {"rule": Alignment(), "fading": Constant(1.0), "decibel": 0.0, "noise_variance": 16.0}
    return hush.over_the_air(**(channel | settings))


def scaffold() -> Any:
    """SCAFFOLD with both messages clipped, and noise on their sum."""
    changed = {"cohort": Everyone("equal"), "uplink": (Clip(1.0),), "channel": Noisy(0.3), "server": AddWithControl()}
    return replace(hush.scaffold(steps=1, lr=0.1), **changed)


def private_scaffold() -> Any:
    """SCAFFOLD whose every local step is private."""
    oracle = ClippedPerExample(1.0, 3.0)
    inner = LocalSGD(0.1, steps=2, batches=Full(), oracle=oracle, direction=(ControlVariate(),))
    return replace(hush.Algorithm(Uniform(4), Scaffold(inner)), server=AddWithControl())


def median() -> Any:
    """A median of messages that have noise of their own."""
    return replace(fedavg(5, z=4.0, noise="client", draw="uniform"), channel=Each(), server=Median())


ALGORITHMS = {
    "DP-FedAvg, Poisson": Private(fedavg),
    "DP-FedAvg, fixed cohort": Private(lambda: fedavg(z=2.0, draw="uniform")),
    "DP-FedAvg, in turn": Private(lambda: fedavg(z=2.0, draw="cyclic")),
    "DP-FedAvg, everyone": Private(lambda: replace(fedavg(), cohort=Everyone("equal"), channel=Noisy(0.3))),
    "DP-FedAvg, if only the sum is seen": Private(lambda: fedavg(z=4.0, draw="uniform"), trust="assumed-sum"),
    "DP-FedAvg, noise of clients, if only the sum is seen": Private(
        lambda: fedavg(5, z=4.0, draw="uniform", noise="client"), trust="assumed-sum"
    ),
    "DP-FedAvg, Skellam numbers in a secure sum": Private(summed),
    "DP-FedAvg, discrete Gaussians in a secure sum": Private(lambda: summed(noise="discrete_gaussian")),
    "DP-FedAvg, noise of clients": Private(lambda: fedavg(z=6.0, draw="uniform", noise="client")),
    "DP-FedAvg, noise of clients, QSGD": Private(lambda: fedavg(z=6.0, draw="uniform", noise="client", levels=4)),
    "DP-FedAvg, noise on a grid": Private(lambda: fedavg(z=2.0, draw="cyclic", grid_bits=20)),
    "DP-FedAvg, adaptive clip": Private(lambda: fedavg(adaptive=True, clip=None)),
    "DP-FedAvg, correlated noise": Private(lambda: fedavg(z=2.0, draw="cyclic", bands=3, rounds=10), rounds=10),
    "DP-FedAvg, models clipped": Private(lambda: fedavg(z=2.0, draw="cyclic", clipping="model")),
    "SCAFFOLD, clipped, noise on the sum": Private(scaffold),
    "median of noisy messages": Private(median),
    "private FedPAQ, noise at every step": Private(fedpaq),
    "private FedPAQ, subsets": Private(lambda: fedpaq(steps=2, batch=2, noise_multiplier=1.0)),
    "private FedPAQ, noise on the update": Private(lambda: fedpaq(perturbation="output")),
    "private FedPAQ, noise on a grid": Private(lambda: fedpaq(grid_bits=20, levels=None)),
    "private SCAFFOLD, noise at every step": Private(private_scaffold),
    "Langevin (FA-LD)": Private(lambda: hush.fa_ld(steps=2, lr=1e-4, temperature=4.0, clip=1.0)),
    "over the air, aligned": Private(air),
    "over the air, full power": Private(lambda: air(rule=FullPower())),
    "over the air, senders secret": Private(lambda: air(clients=8), trust="secret-air"),
}


def attacked(name: str) -> Row:
    """One row: both sides of ε, and all that stands beside them."""
    private = ALGORITHMS[name]
    finding = audit_pairs(
        private.make(), CLIENTS, private.rounds, delta=DELTA, trust=private.trust, lanes=LANES, seed=SEED
    )
    return row_of(name, private.rounds, finding)


def row_of(name: str, rounds: int, finding: Finding) -> Row:
    """A finding as names and values."""
    claim = finding.claim
    return {
        "algorithm": name,
        "rounds": rounds,
        "unit": claim.unit,
        "relation": claim.relation,
        "trust": claim.trust,
        "adversary": finding.adversary,
        "delta": claim.delta,
        "claimed": claim.epsilon,
        "bound": finding.bound,
        "bounds": [list(each) for each in finding.bounds],
        "confidence": finding.confidence,
        "estimate": finding.estimate,
        "verdict": verdict_of(finding),
        "how": finding.words,
        "lanes": LANES,
        "hush": hush.__version__,
        "seconds": round(finding.seconds, 1),
    }


def kept() -> dict[str, Row]:
    """What earlier runs of this file found with as many lanes."""
    if not WHERE.is_file():
        return {}
    rows = json.loads(WHERE.read_text(encoding="utf-8"))
    return {row["algorithm"]: row for row in rows if row["lanes"] == LANES and row["hush"] == hush.__version__}


def keep(rows: dict[str, Row]) -> None:
    """All rows, in the order of the table."""
    ordered = [rows[name] for name in ALGORITHMS if name in rows]
    text = json.dumps(ordered, indent=1, ensure_ascii=False) + "\n"
    WHERE.parent.mkdir(parents=True, exist_ok=True)
    atomically(WHERE, lambda file: file.write(text.encode()))


def table(rows: dict[str, Row]) -> str:
    """As Markdown; a claim is never rounded down, a bound never up."""
    lines = [
        "| algorithm | protected | trust | the adversary sees | rounds | claimed ε | shown ε | estimate |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in (rows[name] for name in ALGORITHMS if name in rows):
        protected = f"{row['unit']}, {row['relation']}"
        claimed = "∞" if row["claimed"] == inf else rounded_up(row["claimed"])
        shown = rounded_down(row["bound"]) + ("" if row["verdict"] == "not refuted" else f" ({row['verdict']})")
        cells = [
            row["algorithm"],
            protected,
            row["trust"],
            row["adversary"],
            str(row["rounds"]),
            claimed,
            shown,
            f"{row['estimate']:.2g}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Attack what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="those whose name has this in it")
    parser.add_argument("--anew", action="store_true", help="make them anew")
    parser.add_argument("--table", action="store_true", help="print the table of what is there")
    given = parser.parse_args()
    rows = kept()
    wanted = [name for name in ALGORITHMS if given.only.lower() in name.lower() and not given.table]
    for name in wanted:
        if given.anew or name not in rows:
            rows[name] = attacked(name)
            keep(rows)
            print(
                f"{name}: {rows[name]['bound']:.3f} of {rows[name]['claimed']:.3f}, {rows[name]['seconds']} s",
                flush=True,
            )
    print(table(rows))


if __name__ == "__main__":
    main()
