"""`hush privacy`: noise, rounds and ε, any two of them in and the third out, for every way to sample."""

import json
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import typer

from hush.app.tables import print_table
from hush.core.check import at_least, positive, whole
from hush.privacy import Poisson, Release, Sampling, Subset, Unsampled, noise_multiplier_for, rounds_within, spent
from hush.privacy.calibration import MOST_ROUNDS
from hush.privacy.guarantee import delta_too_large
from hush.privacy.releases import fraction
from hush.privacy.shown import rounded_up

SYMBOLS = {"epsilon": "ε", "noise": "noise", "rounds": "rounds"}


class Way(NamedTuple):
    """A way to sample, the neighbours that go with it, and how far one of them moves what is released."""

    name: str
    relation: str
    sampling: Sampling
    moves: int  # times the clipping bound; times the sensitivity itself where an example is protected

    def release(self, noise: float) -> Release:
        """One round with this noise."""
        return Release(noise / self.moves, self.relation, self.sampling)


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
        all_of_them = self.taken is None or self.taken == self.units
        subset = Subset(self.units if self.taken is None else self.taken, self.units)
        if self.level == "example":
            return [Way("all examples" if all_of_them else "subset without replacement", "replace", subset, 1)]
        if all_of_them:
            return [Way("everyone", "add-or-remove", Unsampled(), 1), Way("everyone", "replace", Unsampled(), 2)]
        return [
            Way("Poisson", "add-or-remove", Poisson(subset.rate), 1),
            Way("fixed number without replacement", "replace", subset, 2),
        ]


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
    whole("--clients" if examples is None else "--examples", units)
    assert units is not None
    if taken is not None:
        whole(words, taken, 1, units)
    fraction("--delta", delta)
    if rounds is not None:
        whole("--rounds", rounds)
    if noise is not None:
        at_least("--noise", noise, 0)
    if epsilon is not None:
        positive("--epsilon", epsilon)
    return Question("client" if examples is None else "example", units, taken, delta, rounds, noise, epsilon)


def answer(question: Question, way: Way) -> Answer:
    """What was asked for, if rounds are sampled this way."""
    rounds, noise, epsilon, delta = question.rounds, question.noise, question.epsilon, question.delta
    if rounds is not None and noise is not None:
        found = spent({way.release(noise): rounds}, delta)
        return Answer(found.rdp, found.pld, found.epsilon)
    assert epsilon is not None
    # What an accountant knows at some noise it knows at any.
    knows = spent({way.release(way.moves): rounds or 1}, delta).pld is not None
    accountants = ("rdp", "pld", "least") if knows else ("rdp", "least")
    if rounds is not None:
        numbers = {
            name: way.moves * noise_multiplier_for(epsilon, delta, rounds, way.relation, way.sampling, name)
            for name in accountants
        }
    else:
        assert noise is not None
        numbers = {name: rounds_within(way.release(noise), epsilon, delta, accountant=name) for name in accountants}
    return Answer(numbers["rdp"], numbers.get("pld"), numbers["least"])


def assumptions(question: Question) -> dict[str, str]:
    """What has to be so for the answer to hold."""
    one_of = f"{question.units if question.taken is None else question.taken} of {question.units}"
    rounds = "all rounds" if question.rounds is None else f"{question.rounds} rounds"
    everyone = question.ways[0].sampling.rate == 1
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
            way.relation,
            f"{'' if way.moves == 1 else way.moves}{bound}",
            f"{way.sampling.rate:.4g}",
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
            "neighbours": way.relation,
            "sensitivity": way.moves,
            "rate": way.sampling.rate,
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
