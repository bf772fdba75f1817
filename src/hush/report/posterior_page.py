"""What a run folder and its report say of posterior samples, and of how far predictions can be believed."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

from hush.core.columns import SCORES
from hush.posterior import Posterior
from hush.posterior.tables import named
from hush.report import markup
from hush.report.posterior_plots import density, trace
from hush.report.reliability import PREDICTORS, reliability_diagram
from hush.report.style import write_png
from hush.store import RunFolder, atomically, files, load_table
from hush.store.reading import load_or_warn
from hush.store.writing import atomically_by_name

SHOWN = 6  # parameters
ROOM = 1 << 20  # bytes that a posterior file takes beside its samples
AGREED = 1.1  # the R-hat below which chains are taken to sample one law
DIAGNOSED = 2_000  # parameters whose chains are compared: more would keep the end of a run waiting


def write_posterior(folder: RunFolder, posterior: Posterior) -> None:
    """The chains for ArviZ, whether they agree, and pictures of those parameters that agree least."""
    points = posterior.points()
    rows = []
    for number, point in enumerate(points):
        part = posterior.where(point) if point else posterior
        _netcdf(files.POSTERIOR.path(folder.path, f"-{number}" if len(points) > 1 else ""), part)
        rows.append(point | {"chains": part.values.shape[1], "draws": part.values.shape[0]} | _agreement(part))
    atomically(files.DIAGNOSTICS.path(folder.path), lambda file: file.write(json.dumps({"points": rows}).encode()))
    if len(points) == 1 and "r_hat" in rows[0]:
        write_png(trace(posterior, SHOWN), files.TRACE_PICTURE.path(folder.path))
        write_png(density(posterior, SHOWN), files.DENSITY_PICTURE.path(folder.path))


def _netcdf(path: Path, posterior: Posterior) -> None:
    """Room is looked for first: cut short by a full disk, the library that writes it prints tracebacks of its own."""
    if shutil.disk_usage(path.parent).free < 1.1 * posterior.values.nbytes + ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    atomically_by_name(path, posterior.to_netcdf)


def _agreement(posterior: Posterior) -> dict[str, Any]:
    """The worst R-hat and effective sample sizes, or why there are none."""
    if posterior.values.shape[2] > DIAGNOSED:
        return {"note": f"more than {DIAGNOSED:,} parameters: ask result.posterior.worst()"}
    try:
        return posterior.worst()
    except ValueError as reason:
        return {"note": str(reason)}


def posterior_section(folder: Path) -> list[str]:
    """The chains of a run that took samples."""
    points = load_or_warn(files.DIAGNOSTICS.path(folder), "whether chains agree").get("points", [])
    if not points:
        return []
    names = list(dict.fromkeys(name for point in points for name in point))
    heads = {"r_hat": "worst R-hat", "ess_bulk": "fewest effective samples", "ess_tail": "fewest in the tails"}
    rows = [[_number(point.get(name, "")) for name in names] for point in points]
    body = ["<h2>Posterior samples<small>a chain is a repetition</small></h2>"]
    body.append(markup.table("diagnostics", [heads.get(name, name) for name in names], rows))
    if any(point.get("r_hat", 0) > AGREED for point in points):
        body.append(
            markup.banner("fair", "The chains do not agree yet.", f"R-hat should be below {AGREED}: run longer.")
        )
    pictures = (
        (files.TRACE_PICTURE, "Each chain over the rounds, for the parameters whose chains agree least."),
        (files.DENSITY_PICTURE, "How the same parameters are spread, with their mean and 90 % credible interval."),
    )
    found = [(picture.path(folder), caption) for picture, caption in pictures if picture.path(folder).is_file()]
    return body + [markup.image(path.stem, path, caption) for path, caption in found]


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def calibration_section(folder: Path) -> list[str]:
    """How sure and how often right, for any classifier."""
    scores, bins = (load_table(folder, table.name) for table in (files.CALIBRATION, files.RELIABILITY))
    if scores is None or bins is None:
        return []
    settings = [str(name) for name in scores.columns if "." in str(name)]
    means = scores.groupby(["prediction", *settings], sort=False)[list(SCORES)].mean().reset_index()
    rows = [[_number(value) for value in row] for row in means.itertuples(index=False, name=None)]
    body = ["<h2>Can its probabilities be believed?<small>on the test examples</small></h2>"]
    body.append(markup.table("calibration", ["prediction", *settings, *SCORES.values()], rows, 1 + len(settings)))
    tables = dict(list(named(bins).items())[:PREDICTORS]) if len(bins) else {}
    if tables:
        drawn = reliability_diagram(tables)
        write_png(drawn, files.RELIABILITY_PICTURE.path(folder))
        caption = "How often predictions are right, by how sure they were; all repetitions together."
        body.append(markup.figure("reliability", drawn, f"Reliability diagram. {caption}", caption, "wide"))
    return body
