"""Numbers as people say them: bits, seconds, percentages, in the units of the records' columns."""

import math
from typing import NamedTuple

from hush.core.columns import column
from hush.privacy.shown import rounded_up


class Unit(NamedTuple):
    """What a column is shown in: `value / size` and then `name`."""

    size: float
    name: str


BIT_UNITS = (Unit(1e12, "Tbit"), Unit(1e9, "Gbit"), Unit(1e6, "Mbit"), Unit(1e3, "kbit"), Unit(1, "bit"))
COSTS = ("bit", "s")
# Two of a unit before it is used: 90 s says more than 1.5 min.
TIME_UNITS = ((7200, Unit(3600, "h")), (120, Unit(60, "min")), (1, Unit(1, "s")), (0, Unit(1e-3, "ms")))


def unit(name: str, largest: float) -> Unit:
    """The unit for a column whose values reach up to `largest`.

    >>> unit("uplink_bits", 3.2e9).name
    'Gbit'
    """
    steps = units(name)
    return next((step for least, step in steps if largest >= least), steps[-1][1])


def units(name: str) -> list[tuple[float, Unit]]:
    """All units of a column, the largest first, each with the least value that is shown in it.

    >>> units("accuracy")
    [(0, Unit(size=0.01, name='%'))]
    """
    counted_in = column(name).unit
    if counted_in == "share":
        return [(0, Unit(0.01, "%"))]
    if counted_in == "bit":
        return [(0 if step.size == 1 else step.size, step) for step in BIT_UNITS]
    if counted_in == "s":
        return [*TIME_UNITS]
    return [(0, Unit(1, ""))]


def label(name: str, largest: float = 0.0) -> str:
    """An axis label or a heading, with its unit.

    >>> label("accuracy")
    'test accuracy (%)'
    """
    shown_in = unit(name, largest).name
    return f"{column(name).label} ({shown_in})" if shown_in else column(name).label


def cost(name: str) -> str:
    """What a curve is drawn against, in a sentence.

    >>> cost("uplink_bits")
    'bits sent by all clients'
    """
    found = column(name)
    return f"bits {found.label}" if found.unit == "bit" else found.label


def number(value: float) -> str:
    """Four significant digits.

    >>> number(0.123456), number(2000.0), number(float("nan"))
    ('0.1235', '2000', 'not finite')
    """
    return f"{value:.4g}" if math.isfinite(value) else "not finite"


def count(value: float) -> str:
    """A whole number, thousands apart.

    >>> count(159010)
    '159,010'
    """
    return f"{value:,.0f}" if math.isfinite(value) else "not finite"


def bits(value: float) -> str:
    """An amount of data.

    >>> bits(1.234e9), bits(12)
    ('1.23 Gbit', '12 bit')
    """
    return in_words("uplink_bits", value)


def seconds(value: float) -> str:
    """A stretch of time.

    >>> seconds(0.02), seconds(7.25), seconds(190), seconds(4000), seconds(200000)
    ('20 ms', '7.2 s', '3 min 10 s', '1 h 6 min', '2 d 7 h')
    """
    if not math.isfinite(value):
        return "not finite"
    if value < 1:
        return f"{1000 * value:.0f} ms" if value > 0 else "0 s"
    whole = round(value)
    if whole < 60:
        return f"{value:.1f} s" if value < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 172800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def in_words(name: str, value: float) -> str:
    """One value of a column.

    >>> in_words("accuracy", 0.91234), in_words("train_loss", 0.5)
    ('91.23 %', '0.5')
    """
    return seconds(value) if column(name).unit == "s" else with_spread(name, value, None)


def with_spread(name: str, mean: float, deviation: float | None) -> str:
    """A mean and, if there is one, the standard deviation around it, in one unit. No ε is no guarantee.

    >>> with_spread("accuracy", 0.91, 0.002), with_spread("test_loss", 0.184412, 0.01088)
    ('91.00 ± 0.20 %', '0.184 ± 0.011')
    """
    counted_in = column(name).unit
    if counted_in == "ε":  # never less than it is
        return "no guarantee" if math.isnan(mean) else rounded_up(mean)
    if not math.isfinite(mean):
        return "not finite"
    chosen = unit(name, mean)
    # Every repetition often costs the same, and then there is no spread to speak of.
    alone = deviation is None or not math.isfinite(deviation) or (deviation == 0 and counted_in in COSTS)
    if deviation is None or alone:
        text = _digits(counted_in, mean / chosen.size)
    elif deviation > 0 and 1e-4 < abs(mean) < 1e6 and counted_in not in (*COSTS, "share"):
        # Two digits of the deviation, and the mean to the same place: more would be noise.
        places = min(max(1 - math.floor(math.log10(deviation)), 0), 6)
        text = f"{mean:.{places}f} ± {deviation:.{places}f}"
    else:
        text = f"{_digits(counted_in, mean / chosen.size)} ± {_digits(counted_in, deviation / chosen.size)}"
    return f"{text} {chosen.name}".rstrip()


def _digits(counted_in: str, value: float) -> str:
    if counted_in == "count":
        return count(value)
    if counted_in == "share":
        return f"{value:.2f}"
    if counted_in in COSTS:
        return f"{value:.3g}" if value < 1000 else count(value)
    return number(value)
