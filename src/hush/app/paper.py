"""`hush paper`: run a paper's experiments again, tell what came out, and write it down."""

import time
from pathlib import Path

from hush.app.tables import print_table
from hush.core.check import known
from hush.papers import PAPERS, Runs, Section, cells, claims_table, write


def reproduce(
    name: str, figure: str | None, quick: bool, out: Path, keep: Path, fresh: bool = False, long: bool = False
) -> None:
    """All experiments of a paper, or one of them; runs are kept in a folder under `keep`, or made `fresh`.

    What a page needs of `long` runs is published beside it.
    """
    known("paper", name, PAPERS)
    paper = PAPERS[name]
    if figure is not None:
        known(f"figure of {name}", figure, paper.experiments)
    if quick and set(paper.experiments) <= set(paper.not_quick):
        raise ValueError(f"{name} has no trial in seconds: leave --quick out, and runs that were published are shown")
    published = None if quick else out / name / "runs"
    runs = Runs(keep / name, fresh, lambda text: print(f"  {text}", flush=True), long, published)
    lab, sections, begin = paper.lab(quick, runs), [], time.perf_counter()
    for number, experiment in paper.experiments.items():
        if figure == number or (figure is None and not (quick and number in paper.not_quick)):
            print(f"{number}: {(experiment.__doc__ or '').strip()}", flush=True)
            sections.append(experiment(lab))
            _tell(sections[-1])
    claims = claims_table(sections)
    if len(claims):
        print_table(list(claims.columns), cells(claims))
    asked = [*(["--figure", figure] if figure else []), *(["--quick"] if quick else []), "--out", str(out)]
    command = " ".join(["hush paper", name, *asked])
    sections += [runs.section()] if runs.came else []
    took = f"{time.perf_counter() - begin:.0f} s"
    settings = f"{lab.words}; {runs.words}; this page took {took}, with the runs that it made."
    print(write(paper, name, sections, out, command, settings))


def _tell(section: Section) -> None:
    for _, table in section.tables:
        print_table([str(name) for name in table], cells(table))
