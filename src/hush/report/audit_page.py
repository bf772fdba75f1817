"""The page of an audit: both sides of ε, what each attack sees and found, and what the claim rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from hush.privacy.shown import rounded_down, rounded_up
from hush.report import audit_plots as plots
from hush.report import formatting, markup
from hush.report.audit_plots import Attack

STYLE = """
#attacks td, #bounds td, #claim td, #exposure td { white-space: normal; }
#attacks td.name:nth-child(2) { min-width: 170px; color: var(--soft); }
#attacks td:last-child { text-align: left; min-width: 130px; font-weight: 600; }
#claim td:first-child { min-width: 130px; }
.question { font-size: 17px; margin: 0 0 18px; }
.lead { max-width: 860px; color: var(--soft); }
figure svg { overflow: visible; }
"""
BANNERS = {"refuted": "bad", "not refuted": "good"}


@dataclass(frozen=True, eq=False)
class AttackFacts:
    """One attack: as it is drawn, and what stands beside it in words."""

    drawn: Attack
    sees: str
    confidence: float
    verdict: str
    words: str = ""  # how it was done
    estimate: float | None = None
    seconds: float = 0.0
    bounds: Sequence[tuple[float, float, float]] = ()  # δ, claimed, lower bound; the claim's own δ first


@dataclass(frozen=True, eq=False)
class Extra:
    """What an attack shows beside a bound: a heading, a sentence, pictures with captions, tables by their names."""

    name: str
    heading: str
    words: str
    pictures: Sequence[tuple[Figure, str]] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditFacts:
    """All that an audit's page shows, as plain data; what is left empty has no section.

    question      what was audited
    verdict       refuted, not refuted, or in other words where nothing covers what was attacked
    sentence      the outcome with all that an ε stands beside
    epsilon       that is claimed at `delta`; infinite where nothing is
    allowed       what is claimed, as (ε, δ): at this δ first, then at others
    claim         every word of the claim, by name
    """

    title: str
    question: str
    verdict: str
    sentence: str
    epsilon: float
    delta: float
    allowed: Sequence[tuple[float, float]] = ()
    attacks: Sequence[AttackFacts] = ()
    claim: Mapping[str, str] = field(default_factory=dict)
    extras: Sequence[Extra] = ()
    notes: Sequence[str] = ()
    seconds: float = 0.0


def write_audit_page(path: Path, answer: AuditFacts) -> Path:
    """One file that opens anywhere."""
    head = f"{answer.verdict[:1].upper()}{answer.verdict[1:]}."
    body = [
        f'<p class="question">{markup.text(answer.question)}</p>',
        markup.banner(BANNERS.get(answer.verdict, "note"), head, answer.sentence),
        _numbers(answer),
        *_both_sides(answer),
        *_region(answer),
        *_scores(answer),
        *_other_deltas(answer),
        *(part for extra in answer.extras for part in _extra(extra)),
        *_claim(answer),
        *_notes(answer),
    ]
    page = markup.document(answer.title, "hush, an audit", body)
    return markup.write(path, page.replace("</style>", f"{STYLE}</style>", 1))


def _numbers(answer: AuditFacts) -> str:
    claimed = [("claimed: ε at most", rounded_up(answer.epsilon) if answer.epsilon < float("inf") else "nothing")]
    covered = [each for each in answer.attacks if each.drawn.covered] or list(answer.attacks)
    best = max(covered, key=lambda each: each.drawn.bound, default=None)
    shown = [] if best is None else [("shown: ε at least", rounded_down(best.drawn.bound))]
    sure = [] if best is None else [("confidence of all bounds", f"{_together(answer):.4g}")]
    pairs = [*claimed, *shown, ("δ", f"{answer.delta:g}"), *sure, ("attacks with a bound", str(len(answer.attacks)))]
    return markup.facts([*pairs, ("time it took", formatting.seconds(answer.seconds))])


def _together(answer: AuditFacts) -> float:
    """The chance that no bound is wrong, which is at least this."""
    return 1 - sum(1 - each.confidence for each in answer.attacks)


def _both_sides(answer: AuditFacts) -> list[str]:
    if not answer.attacks:
        return []
    drawn = plots.both_sides([each.drawn for each in answer.attacks])
    said = (
        "Each attack has shown that ε is at least where its bar ends, up to the confidence; the line is the ε that is "
        "claimed. Between them lies what this audit does not decide. A bar that goes beyond the line refutes the claim."
    )
    names = "; ".join(f"{each.drawn.name}: at least {rounded_down(each.drawn.bound)}" for each in answer.attacks)
    picture = markup.figure("both-sides", drawn, f"{said} {names}", said, "wide")
    heads = (
        "attack",
        "the adversary sees",
        "claimed ε",
        "lower bound",
        "at confidence",
        "an estimate, no bound",
        "verdict",
    )
    rows = [_row(each) for each in answer.attacks]
    return ["<h2>Both sides of ε</h2>", picture, "<br>", markup.table("attacks", heads, rows, 2), *_words(answer)]


def _row(each: AttackFacts) -> list[str]:
    drawn = each.drawn
    claimed = "–" if drawn.claimed == float("inf") else rounded_up(drawn.claimed)
    estimate = "" if each.estimate is None else formatting.number(each.estimate)
    bound, sure = rounded_down(drawn.bound), f"{each.confidence:.4g}"
    return [drawn.name, each.sees, claimed, bound, sure, estimate, each.verdict]


def _words(answer: AuditFacts) -> list[str]:
    said = [
        f"{each.drawn.name}: {each.words} ({formatting.seconds(each.seconds)})" for each in answer.attacks if each.words
    ]
    summary = "<summary>How each attack was made</summary>"
    return [f"<details>{summary}{markup.sentences(said)}</details>"] if said else []


def _region(answer: AuditFacts) -> list[str]:
    drawn = [each.drawn for each in answer.attacks if len(each.drawn.false)]
    if not drawn:
        return []
    said = (
        "An attack calls a run “in” where its score is above a threshold: how often rightly against how often wrongly, "
        "over all thresholds."
    )
    allowed = " No test whatever leaves the shaded region, if the claim holds." if answer.epsilon < float("inf") else ""
    pictures = [
        markup.figure("region", plots.region(drawn, answer.allowed), said + allowed, said + allowed),
        markup.figure(
            "region-small", plots.region(drawn, answer.allowed, small=True), f"Small rates. {said}",
            "The same where it matters most: who is wrongly called “in” once in a thousand times, or never.",
        ),
    ]  # fmt: skip
    heading = (
        "<h2>Inside what (ε, δ) allows<small>curves of few runs may stray by chance; bounds count that</small></h2>"
    )
    return [heading, f'<div class="grid two">{"".join(pictures)}</div>']


def _scores(answer: AuditFacts) -> list[str]:
    drawn = [each.drawn for each in answer.attacks if len(each.drawn.included) + len(each.drawn.excluded)]
    pictures = [
        markup.figure(f"scores-{number}", plots.scores(each), f"Scores of {each.name}", _counted(each))
        for number, each in enumerate(drawn)
    ]
    return ["<h2>What attacks told them apart by</h2>", f'<div class="grid">{"".join(pictures)}</div>'] if drawn else []


def _counted(attack: Attack) -> str:
    counts = formatting.count(len(attack.included)), formatting.count(len(attack.excluded))
    return f"{attack.name}: scores of {counts[0]} runs with the unit in and {counts[1]} without it."


def _other_deltas(answer: AuditFacts) -> list[str]:
    rows = [
        [each.drawn.name, f"{delta:g}", "–" if claimed == float("inf") else rounded_up(claimed), rounded_down(bound)]
        for each in answer.attacks
        if len(each.bounds) > 1
        for delta, claimed, bound in each.bounds
    ]
    if not rows:
        return []
    said = "A claim holds at every δ, and is refuted where it fails at any; the bounds of an attack hold together."
    heading = f"<h2>At other δ<small>{said}</small></h2>"
    return [heading, markup.table("bounds", ("attack", "δ", "claimed ε", "lower bound"), rows)]


def _extra(extra: Extra) -> list[str]:
    pictures = "".join(
        markup.figure(f"{extra.name}-{number}", drawn, caption, caption)
        for number, (drawn, caption) in enumerate(extra.pictures)
    )
    shown = [f'<div class="grid two">{pictures}</div>'] if pictures else []
    tables = [
        markup.table(
            f"{extra.name}-{name}", [str(each) for each in table.columns], table.astype(str).to_numpy().tolist()
        )
        for name, table in extra.tables.items()
        if len(table)
    ]
    lead = f'<p class="lead">{markup.text(extra.words)}</p>'
    return [f"<h2>{markup.text(extra.heading)}</h2>", lead, *shown, *("<br>" + each for each in tables)]


def _claim(answer: AuditFacts) -> list[str]:
    if not answer.claim:
        return []
    heading = "<h2>What is claimed<small>a figure means nothing without what stands below it</small></h2>"
    return [heading, markup.table("claim", ("", ""), [(name, text) for name, text in answer.claim.items()], 2)]


def _notes(answer: AuditFacts) -> list[str]:
    return ["<h2>How to read this</h2>", markup.sentences(answer.notes)] if answer.notes else []
