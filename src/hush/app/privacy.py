"""`hush privacy`: noise, rounds and ε, any two of them in and the third out, for every way to sample."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import typer

from hush.algorithms import dp_fedavg, private_fedpaq
from hush.app.tables import print_table
from hush.core.algorithm import Algorithm
from hush.core.check import at_least, integer, positive
from hush.privacy import Description, EqualClients, Release, calibrate, describe
from hush.privacy.calibration import MOST_ROUNDS
from hush.privacy.guarantee import delta_too_large
from hush.privacy.releases import fraction
from hush.privacy.shown import rounded_up

SYMBOLS = {"epsilon": "ε", "noise": "noise", "rounds": "rounds"}


class Way(NamedTuple):
    """A way to sample: the algorithm that samples so, with a noise, and whom it runs on. The rest is its guarantee."""

    name: str
    make: Callable[[float], Algorithm]
    unit: str
    clients: EqualClients

    def described(self, noise: float, rounds: int) -> Description:
        """So many rounds with this noise."""
        return describe(self.make(noise), self.clients, rounds, unit=self.unit)

    @property
    def release(self) -> Release:
        """One round with a noise of one."""
        ((release, _),) = self.described(1.0, 1).first.of(self.clients.size)
        return release

    @property
    def moves(self) -> int:
        """How far a neighbour moves what is released: in clipping bounds, or the sensitivity itself of an example."""
        return round(1 / self.release.noise_multiplier)


class Answer(NamedTuple):
    """The same number by each accountant; None where it has no proof."""

    rdp: float
    pld: float | None
    least: float  # the best: least ε or noise, most rounds


@dataclass(frozen=True)
class Question:
    """What was given; one of rounds, noise and ε is None, and asked for."""

    level: str  # whose privacy: client or example
    units: int
    taken: int | None  # how many of the units a round takes; None is all
    delta: float
    rounds: int | None
    noise: float | None
    epsilon: float | None

    @property
    def asked(self) -> str:
        """What is to be worked out."""
        return next(name for name in SYMBOLS if getattr(self, name) is None)

    @property
    def ways(self) -> list[Way]:
        """How a round may be sampled."""
        taken = self.units if self.taken is None else self.taken
        everything = taken == self.units
        if self.level == "example":
            name, batch = ("all examples", None) if everything else ("subset without replacement", taken)
            make = lambda noise: private_fedpaq(steps=1, batch=batch, noise_multiplier=noise)  # noqa: E731
            return [Way(name, make, self.level, EqualClients(1, self.units))]
        names = ("everyone",) * 2 if everything else ("Poisson", "fixed number without replacement")

        def averaging(draw: str) -> Callable[[float], Algorithm]:
            return lambda noise: dp_fedavg(taken, self.units, clip=1.0, steps=1, draw=draw, noise_multiplier=noise)

        draws = zip(names, ("poisson", "uniform"), strict=True)
        return [Way(name, averaging(draw), self.level, EqualClients(self.units)) for name, draw in draws]


def calculate(
    clients: int | None,
    per_round: int | None,
    examples: int | None,
    subset: int | None,
    delta: float | None,
    rounds: int | None,
    noise: float | None,
    epsilon: float | None,
    as_json: bool = False,
) -> None:
    """Print the answer, and what it assumes."""
    question = understood(clients, per_round, examples, subset, delta, rounds, noise, epsilon)
    answers = [answer(question, way) for way in question.ways]
    warning = delta_too_large(question.level, question.units, question.delta)
    if as_json:
        typer.echo(json.dumps(_plain(question, answers, warning), indent=2, ensure_ascii=False))
    else:
        _print_answers(question, answers)
        print_table(("assumed", "here"), list(assumptions(question).items()))
    if warning:
        typer.echo(warning, err=True)


def understood(
    clients: int | None,
    per_round: int | None,
    examples: int | None,
    subset: int | None,
    delta: float | None,
    rounds: int | None,
    noise: float | None,
    epsilon: float | None,
) -> Question:
    """The question, or an error that says what is wrong with it."""
    if (clients is None) == (examples is None):
        found = "found neither" if clients is None else "found both"
        raise ValueError(f"say whose privacy: --clients for a client's or --examples for an example's, {found}")
    if examples is None and subset is not None:
        raise ValueError("--subset goes with --examples; with --clients say --per-round")
    if clients is None and per_round is not None:
        raise ValueError("--per-round goes with --clients: the server sees who takes part, which hides no example")
    if delta is None:
        raise ValueError("--delta is needed: the probability that ε may fail, such as 1e-5")
    given = {"--rounds": rounds, "--noise": noise, "--epsilon": epsilon}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 2:
        raise ValueError(f"give two of --rounds, --noise and --epsilon, found {' and '.join(named) or 'none'}")
    units, taken, words = (clients, per_round, "--per-round") if examples is None else (examples, subset, "--subset")
    integer("--clients" if examples is None else "--examples", units)
    assert units is not None
    if taken is not None:
        integer(words, taken, 1, units)
    fraction("--delta", delta)
    if rounds is not None:
        integer("--rounds", rounds)
    if noise is not None:
        at_least("--noise", noise, 0)
    if epsilon is not None:
        positive("--epsilon", epsilon)
    return Question("client" if examples is None else "example", units, taken, delta, rounds, noise, epsilon)


def answer(question: Question, way: Way) -> Answer:
    """What was asked for, if rounds are sampled this way."""
    rounds, noise, epsilon, delta = question.rounds, question.noise, question.epsilon, question.delta
    size = way.clients.size
    if noise == 0:
        return Answer(inf, inf, inf) if epsilon is None else Answer(0, 0, 0)
    if rounds is not None and noise is not None:
        found = way.described(noise, rounds).spent((rounds,), size, delta)
        return Answer(found.rdp, found.pld, found.epsilon)
    assert epsilon is not None
    # What an accountant knows at some noise it knows at any.
    knows = way.described(1.0, rounds or 1).spent((rounds or 1,), size, delta).pld is not None
    accountants = ("rdp", "pld", "least") if knows else ("rdp", "least")
    if rounds is not None:
        numbers = {
            name: calibrate(way.make, way.clients, rounds, epsilon, delta, unit=way.unit, accountant=name)
            for name in accountants
        }
    else:
        assert noise is not None
        described = way.described(noise, MOST_ROUNDS)
        numbers = {name: described.rounds_within(epsilon, size, delta, name) for name in accountants}
    return Answer(numbers["rdp"], numbers.get("pld"), numbers["least"])


def assumptions(question: Question) -> dict[str, str]:
    """What has to be so for the answer to hold."""
    one_of = f"{question.units if question.taken is None else question.taken} of {question.units}"
    rounds = "all rounds" if question.rounds is None else f"{question.rounds} rounds"
    everyone = question.taken in (None, question.units)
    kept = "drawn anew each round and kept secret"
    if question.level == "client":
        drawn = f"{one_of} clients on average (Poisson) or exactly, {kept}"
        return {
            "unit": "a client, with all that it holds",
            "neighbours": "add-or-remove: a client more or less; replace: a client's data changed for any other",
            "noise": "Gaussian, on a round's sum of updates clipped at c; its deviation is given over c",
            "sensitivity": "c when a client is added or removed, 2c when one is replaced",
            "trust": "the server, which publishes only what has the noise; or a secure sum whose cohort is secret",
            "sampling": "every client in every round: nothing is gained by it" if everyone else drawn,
            "composition": f"{rounds}, each seeing the ones before",
            "δ": f"{question.delta:g}",
        }
    return {
        "unit": "an example of one client",
        "neighbours": "replace: an example changed for any other",
        "noise": "Gaussian, on what the client sends; its deviation is given over the sensitivity",
        "sensitivity": "how far what is sent moves when one example is replaced, in L2 norm",
        "trust": "local: an honest but curious server sees what each client sends and who takes part",
        "sampling": "every example in every round: nothing is gained by it"
        if everyone
        else f"{one_of} examples without replacement, {kept}; no gain from sampling clients",
        "composition": f"{rounds} that the client takes part in, each seeing the ones before",
        "δ": f"{question.delta:g}",
    }


def _print_answers(question: Question, answers: list[Answer]) -> None:
    bound = "c" if question.level == "client" else "Δ"
    rows = [
        (
            way.name,
            way.release.relation,
            f"{'' if way.moves == 1 else way.moves}{bound}",
            f"{way.release.sampling.rate:.4g}",
            *(_cell(question.asked, value) for value in found),
        )
        for way, found in zip(question.ways, answers, strict=True)
    ]
    given = [f"{SYMBOLS[name]} {getattr(question, name):g}" for name in SYMBOLS if name != question.asked]
    title = f"{SYMBOLS[question.asked]} for {', '.join(given)}, δ {question.delta:g}"
    print_table(("sampling", "neighbours", "sensitivity", "rate", "by Rényi", "by distribution", "best"), rows, title)
    if any(found.pld is None for found in answers):
        typer.echo("–: δ is too near rounding for privacy loss distributions; Rényi divergences have no such limit.")


def _cell(asked: str, value: float | None) -> str:
    if value is None:
        return "–"
    if asked == "rounds":
        return f"{value} or more" if value == MOST_ROUNDS else f"{value}"
    return rounded_up(value, 4)


def _plain(question: Question, answers: list[Answer], warning: str) -> dict[str, Any]:
    ways = [
        {
            "sampling": way.name,
            "neighbours": way.release.relation,
            "sensitivity": way.moves,
            "rate": way.release.sampling.rate,
            # JSON has no infinity; the word is what float() reads in most languages.
            **{name: "Infinity" if value == inf else value for name, value in found._asdict().items()},
        }
        for way, found in zip(question.ways, answers, strict=True)
    ]
    given = {name: getattr(question, name) for name in ("rounds", "noise", "epsilon") if name != question.asked}
    return {
        "asked": question.asked,
        "level": question.level,
        **given,
        "delta": question.delta,
        "ways": ways,
        "assumptions": assumptions(question),
        "warning": warning.removeprefix("warning: ") or None,
    }
