"""The list of runs as a page, which needs no scripts: filter and sort are addresses, selection is a form."""

import math
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from hush.core.columns import column
from hush.report import formatting, markup
from hush.view.entry import DAMAGED, Entry
from hush.view.shelf import Known, Look

BADGES = {"running": "note", "finished": "good", "stopped": "fair", "failed": "bad", DAMAGED: "bad"}


class Sort(NamedTuple):
    """A column by which runs can be sorted."""

    label: str
    key: Callable[[Entry], float | str]  # what has none, a NaN or nothing, comes last
    down: bool = True  # whether the largest comes first, unless that is turned round


def _goodness(entry: Entry) -> float:
    return entry.value if column(entry.measure).higher_is_better else -entry.value


SORTS = {
    "name": Sort("run", lambda entry: entry.name.casefold(), down=False),
    "algorithm": Sort("algorithm", lambda entry: entry.algorithm.casefold(), down=False),
    "task": Sort("task", lambda entry: entry.task.casefold(), down=False),
    "status": Sort("status", lambda entry: entry.status, down=False),
    "round": Sort("rounds", lambda entry: float(entry.round)),
    "reached": Sort("reached", _goodness),
    "bits": Sort("sent", lambda entry: entry.bits, down=False),
    "epsilon": Sort("privacy ε", lambda entry: entry.epsilon, down=False),
    "began": Sort("began", lambda entry: entry.began),
}
NEWEST = "began"


class Asked(NamedTuple):
    """How the list is to be shown."""

    words: str = ""
    sort: str = NEWEST
    turned: bool = False  # the other way round

    def address(self, **changed: str) -> str:
        """The address of the same list with something changed."""
        said = {"q": self.words, "sort": self.sort, "turned": "1" if self.turned else ""} | changed
        return "/?" + urlencode({name: value for name, value in said.items() if value})


def shown(look: Look, asked: Asked) -> list[tuple[str, Known]]:
    """The runs that all the words are found in, in the order that was asked for."""
    words = asked.words.casefold().split()
    found = [(key, run) for key, run in look.runs.items() if all(word in text_of(run.entry) for word in words)]
    sort = SORTS[asked.sort]
    found.sort(key=lambda each: each[1].entry.name.casefold())
    have = [each for each in found if _has(sort.key(each[1].entry))]
    have.sort(key=lambda each: sort.key(each[1].entry), reverse=sort.down != asked.turned)
    return have + [each for each in found if not _has(sort.key(each[1].entry))]


def _has(key: float | str) -> bool:
    return key != "" if isinstance(key, str) else math.isfinite(key)


def text_of(entry: Entry) -> str:
    """What a filter looks at."""
    return f"{entry.name} {entry.algorithm} {entry.task} {entry.status} {entry.message}".casefold()


def list_page(look: Look, asked: Asked, folder: Path) -> str:
    """The whole page."""
    runs = shown(look, asked)
    body = [
        _controls(asked, len(runs), len(look.runs)),
        _waiting(look),
        '<form id="runs" action="/compare" method="get" target="_blank">',
        f'<div class="scroll"><table><thead>{_heads(asked)}</thead>',
        f"<tbody>{''.join(row(key, run.entry) for key, run in runs)}</tbody></table></div>",
        '<p id="none"' + (" hidden" if runs else "") + f">{markup.text(_nothing(look))}</p>",
        '<p id="chosen"><button>Compare the selected runs</button> <span id="count" role="status"></span></p></form>',
    ]
    return page(folder.name or str(folder), body, f"hush, runs in {folder}", f' data-version="{look.version}"')


def _nothing(look: Look) -> str:
    return "No run is of these words." if look.runs else "There is no run here yet; hush run begins one."


def _waiting(look: Look) -> str:
    return f'<p id="unread"{"" if look.unread else " hidden"}>reading <span>{look.unread}</span> more …</p>'


def _controls(asked: Asked, some: int, of_all: int) -> str:
    options = "".join(
        f'<option value="{name}"{" selected" if name == asked.sort else ""}>{markup.text(sort.label)}</option>'
        for name, sort in SORTS.items()
    )
    turned = " checked" if asked.turned else ""
    return (
        '<form id="filter" action="/" method="get" role="search">'
        f'<label>find <input type="search" name="q" value="{markup.text(asked.words)}" '
        'placeholder="name, algorithm, task, status" autocomplete="off"></label>'
        f'<label>by <select name="sort">{options}</select></label>'
        f'<label><input type="checkbox" name="turned" value="1"{turned}> reversed</label>'
        '<noscript><button>Show</button> Reload to see what has changed.</noscript>'
        f'<output id="number">{some} of {of_all} runs</output></form>'
    )  # fmt: skip


def _heads(asked: Asked) -> str:
    cells = ['<th class="name"><span class="unseen">select</span></th>']
    for name, sort in SORTS.items():
        here = name == asked.sort
        address = asked.address(sort=name, turned="1" if here and not asked.turned else "")
        down = sort.down != asked.turned
        mark = f' aria-sort="{"descending" if down else "ascending"}"' if here else ""
        link = f'<a href="{markup.text(address)}" data-sort="{name}">{markup.text(sort.label)}</a>'
        cells.append(f'<th data-down="{int(sort.down)}"{_class(name)}{mark}>{link}</th>')
    return f"<tr>{''.join(cells)}</tr>"


def _class(name: str) -> str:
    return ' class="name"' if name in ("name", "algorithm", "task", "status", "round") else ""


def row(key: str, entry: Entry) -> str:
    """A run as a row of the table; what it is sorted by is in its cells."""
    said = {
        "name": f'<a href="/run/{key}" target="_blank" rel="noopener">{markup.text(entry.name)}</a>',
        "algorithm": markup.text(entry.algorithm),
        "task": markup.text(entry.task),
        "status": _status(entry),
        "round": _rounds(entry),
        "reached": _reached(entry),
        "bits": markup.text(formatting.bits(entry.bits)) if math.isfinite(entry.bits) else "",
        "epsilon": _epsilon(entry),
        "began": _when(entry.began),
    }
    label = markup.text(f"select {entry.name}")
    box = f'<td class="box"><input type="checkbox" name="run" value="{key}" aria-label="{label}"></td>'
    cells = (_cell(name, inner, SORTS[name].key(entry)) for name, inner in said.items())
    return f'<tr id="run-{key}" data-text="{markup.text(text_of(entry))}">{box}{"".join(cells)}</tr>'


def _cell(name: str, inner: str, key: float | str) -> str:
    value = markup.text(key) if _has(key) else ""
    label = markup.text(SORTS[name].label)
    empty = "" if inner else " data-empty"
    return f'<td{_class(name)} data-label="{label}" data-key="{value}"{empty}>{inner}</td>'


def _status(entry: Entry) -> str:
    kind = BADGES.get(entry.status, "note")
    why = f"<small>{markup.text(entry.message)}</small>" if entry.message else ""
    return f'<span class="badge {kind}">{markup.text(entry.status)}</span>{why}'


def _rounds(entry: Entry) -> str:
    if not entry.rounds:
        return formatting.count(entry.round) if entry.round else ""
    done = f"{formatting.count(entry.round)} of {formatting.count(entry.rounds)}"
    return f'{done}<progress max="{entry.rounds}" value="{entry.round}" aria-label="{done} rounds"></progress>'


def _reached(entry: Entry) -> str:
    if not entry.measure:
        return ""
    note = column(entry.measure).label + (f", best of {entry.best_of}" if entry.best_of > 1 else "")
    return f"{markup.text(formatting.in_words(entry.measure, entry.value))}<small>{markup.text(note)}</small>"


def _epsilon(entry: Entry) -> str:
    if math.isnan(entry.epsilon):
        return f'<abbr title="{markup.text(entry.privacy)}">none</abbr>' if entry.privacy else ""
    figure = markup.text(formatting.in_words("epsilon", entry.epsilon))
    return f"{figure}<small>{markup.text(entry.privacy)}</small>"


def _when(began: float) -> str:
    if not began:
        return ""
    moment = datetime.fromtimestamp(began)
    return f'<time datetime="{moment.isoformat(timespec="seconds")}">{moment:%Y-%m-%d %H:%M}</time>'


def page(title: str, body: Iterable[str], kicker: str = "hush, runs", attributes: str = "") -> str:
    """A page of the viewer's own; what it may load is said in the answer's headers."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{markup.text(title)}</title>\n<link rel="icon" href="data:,">\n'
        '<link rel="stylesheet" href="/page.css">\n<script src="/page.js" defer></script>\n</head>\n'
        f"<body{attributes}>\n<main>\n<header><p>{markup.text(kicker)}</p><h1>{markup.text(title)}</h1></header>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def message(title: str, kind: str, text: str) -> str:
    """A page that says one thing."""
    return page(title, [markup.banner(kind, "", text), '<p><a href="/">All runs</a></p>'])
