"""What attacks found, as figures in the look of all others."""

from collections.abc import Sequence
from math import e, log2
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from hush.audits.beside import in_full, in_short, is_promised
from hush.audits.exposure import Exposure
from hush.audits.likeness import Array, psnr
from hush.audits.reconstruction import Reconstruction
from hush.report.style import DASHES, FONT, GRID, INK, PALETTE, SOFT, Drawing, drawing, dress

MOST = 10  # columns of a picture
NAMES, COLUMN, ROW = 1.9, 0.95, 1.2  # inches


def pictures(each: Sequence[Reconstruction]) -> Drawing:
    """A row of originals, and below it a row for each algorithm: what its messages gave away."""
    columns = min(MOST, len(each[0].originals))
    width = max(NAMES + COLUMN * columns, 6.4)
    notes = [line for one in each for line in _note(one, int(width * 15))]
    head, caption = 0.62, 0.2 + 0.17 * len(notes)
    height = head + ROW * (1 + len(each)) + caption
    figure = drawing(width, height)
    figure.set_layout_engine("none")
    top, bottom = 1 - head / height, caption / height
    grid = figure.add_gridspec(
        1 + len(each),
        columns,
        left=NAMES / width,
        right=(NAMES + COLUMN * columns) / width - 0.015,
        top=top,
        bottom=bottom,
        wspace=0.06,
        hspace=0.32,
    )
    rows: list[Reconstruction | None] = [None, *each]
    for row, one in enumerate(rows):
        axes = [figure.add_subplot(grid[row, column]) for column in range(columns)]
        for column, ax in enumerate(axes):
            _image(ax, each[0].originals[column] if one is None else one.found[column])
            ax.set_xlabel(_below(each[0], one, column), fontsize=FONT - 1.5, color=SOFT, labelpad=2)
        _name(figure, axes[0], one)
    title = "What a message shows of a client's data to whoever sees it"
    figure.text(0.012, 1 - 0.1 / height, title, ha="left", va="top", fontsize=FONT + 3, color=INK)
    of = "one example" if each[0].examples == 1 else f"{each[0].examples} examples"
    said = f"{of} in each message; below: peak signal-to-noise ratio, and the label that was read off the message"
    figure.text(0.012, 1 - 0.36 / height, said, ha="left", va="top", fontsize=FONT - 0.5, color=SOFT)
    figure.text(0.012, 0.09 / height, "\n".join(notes), ha="left", va="bottom", fontsize=FONT - 1.5, color=SOFT)
    return figure


def _note(one: Reconstruction, width: int) -> list[str]:
    """What stands behind a row: how it was made, and the guarantee in full."""
    return wrap(f"{one.name}: {one.way}; {in_full(one.claim)}", width, subsequent_indent="    ")


def _image(ax: Axes, image: Array) -> None:
    grey = image.ndim == 2 or image.shape[2] == 1
    ax.imshow(image.squeeze() if grey else image, cmap="gray" if grey else None, vmin=0, vmax=1)
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ax.spines.values():
        side.set_color(GRID)


def _below(first: Reconstruction, one: Reconstruction | None, column: int) -> str:
    if one is None:
        return f"“{first.labels[column]}”"
    near = psnr(one.originals[column], one.found[column])
    mark = "✓" if one.found_labels[column] == one.labels[column] else "✗"
    return f"{min(near, 99.0):.0f}{'+' if near > 99 else ''} dB, “{one.found_labels[column]}” {mark}"


def _name(figure: Drawing | SubFigure, ax: Axes, one: Reconstruction | None) -> None:
    """What a row is, left of it: the name, and the ε of one message below."""
    place = ax.get_position()
    middle = (place.y0 + place.y1) / 2
    if one is None:
        figure.text(0.012, middle, "original", ha="left", va="center", fontsize=FONT + 1, color=INK)
        return
    name = "\n".join(wrap(one.name, 20))
    figure.text(0.012, middle + 0.003, name, ha="left", va="bottom", fontsize=FONT + 1, color=INK, parse_math=False)
    colour = PALETTE[2] if is_promised(one.claim) else PALETTE[1]
    short = f"{in_short(one.claim)} a message" if is_promised(one.claim) else in_short(one.claim)
    figure.text(0.012, middle - 0.006, short, ha="left", va="top", fontsize=FONT, color=colour)


def numbers(each: Sequence[Reconstruction]) -> Drawing:
    """What was found against what it was, a panel for each algorithm: on the diagonal all is given away."""
    width = max(3.2 * len(each) + 0.4, 4.2)
    notes = [line for one in each for line in _note(one, int(width * 15))]
    figure = drawing(width, 4.1 + 0.16 * len(notes))
    axes = figure.subplots(1, len(each), squeeze=False, sharey=True)[0]
    for ax, one in zip(axes, each, strict=True):
        dress(ax, "both")
        ax.plot([0, 1], [0, 1], color=SOFT, linewidth=0.8)
        ax.scatter(one.originals.ravel(), one.found.ravel(), s=9, color=PALETTE[0], linewidths=0, alpha=0.7)
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="original (share of its range)", aspect="equal")
        ax.set_title(f"{one.name}\n{in_short(one.claim)}", fontsize=FONT + 1, color=INK, parse_math=False)
    axes[0].set_ylabel("found in the message")
    figure.supxlabel("\n".join(notes), x=0.01, ha="left", fontsize=FONT - 1.5, color=SOFT)
    return figure


def exposures(each: Sequence[Exposure]) -> Drawing:
    """A row for each algorithm: every planted secret by its exposure, beside those that nobody held."""
    notes = [line for one in each for line in wrap(f"{one.name}: {one.guarantee}", 118)]
    figure = drawing(7.2, 0.9 + 2.6 * len(each) + 0.15 * len(notes))
    rows = figure.subplots(len(each), 2, sharey=True, squeeze=False, width_ratios=(3, 2))
    for (left, right), one in zip(rows, each, strict=True):
        _planted(left, one)
        _controls(right, one)
    first = each[0]
    times = "once" if first.copies == 1 else f"{first.copies} times"
    title = f"What a model remembers of secrets that clients held {times}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=FONT + 3, color=INK)
    how = "counted" if all(one.exact for one in each) else "estimated by a skew-normal law"
    secret = wrap(f"secret: {first.words}; {first.planted[0].candidates:,} candidates, ranks {how}", 118)
    figure.supxlabel("\n".join([*secret, *notes]), x=0.01, ha="left", fontsize=FONT - 1.5, color=SOFT)
    return figure


def _planted(ax: Axes, found: Exposure) -> None:
    held = sorted(zip(found.planted, found.holders, strict=True), key=lambda pair: -pair[0].exposure)
    _lines(ax, found)
    ax.bar(range(len(held)), [rank.exposure for rank, _ in held], color=PALETTE[0], width=0.7)
    ax.set_xticks(range(len(held)), [str(client) for _, client in held])
    ax.set_xlabel("client whose secret it is")
    ax.set_ylabel("exposure in bits")
    named = f"{found.name}, {found.rounds} rounds: {in_short(found.claim)}"
    ax.set_title(named, loc="left", fontsize=FONT + 1, color=INK, parse_math=False)
    _beside(ax, found.most, "fully exposed", PALETTE[1])


def _controls(ax: Axes, found: Exposure) -> None:
    free = sorted((each.exposure for each in found.controls), reverse=True)
    _lines(ax, found)
    ax.stairs(free, fill=True, color=PALETTE[6])
    ax.set_xticks([])
    ax.set_xlabel(f"{len(free)} secrets that nobody held")
    _beside(ax, log2(e), "mean by chance: 1.44", INK)


def _lines(ax: Axes, found: Exposure) -> None:
    """Where a secret is fully exposed, and what the mean is where nothing is known of any."""
    dress(ax)
    ax.axhline(found.most, color=PALETTE[1], linewidth=1.2, linestyle=DASHES[1])
    ax.axhline(log2(e), color=SOFT, linewidth=1.0, linestyle=DASHES[2])
    ax.set_ylim(0, 1.12 * found.most)


def _beside(ax: Axes, height: float, words: str, colour: str) -> None:
    """What a line across is, at its right end."""
    place = ax.get_yaxis_transform()
    ax.text(0.98, height, words, transform=place, ha="right", va="bottom", fontsize=FONT - 1, color=colour)
