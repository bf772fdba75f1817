"""Numbers as people say them: bits, seconds, percentages, and what each column of the records means."""

import math
from typing import NamedTuple

from hush.privacy.shown import rounded_up


class Unit(NamedTuple):
    """What a column is shown in: `value / size` and then `name`."""

    size: float
    name: str


BIT_UNITS = (Unit(1e12, "Tbit"), Unit(1e9, "Gbit"), Unit(1e6, "Mbit"), Unit(1e3, "kbit"), Unit(1, "bit"))
# Two of a unit before it is used: 90 s says more than 1.5 min.
TIME_UNITS = ((7200, Unit(3600, "h")), (120, Unit(60, "min")), (1, Unit(1, "s")), (0, Unit(1e-3, "ms")))

MEANINGS = {
    "repetition": "repetition",
    "round": "rounds",
    "accuracy": "test accuracy",
    "train_loss": "training loss",
    "test_loss": "test loss",
    "uplink_bits": "sent by all clients",
    "downlink_bits": "sent to all clients",
    "iterations": "local steps of a client",
    "seconds": "training time",
    "channel_seconds": "time on the channel",
    "participants": "clients taking part",
    "clipped": "share of messages clipped",
    "epsilon": "privacy spent, ε",
    "channel_uses": "channel uses",
    "energy": "energy on the air",
    "snr": "signal-to-noise ratio of what is received",
    "local_norm": "length of an update before the uplink",
    "cosine": "cosine to the last global update",
    "clip": "clipping bound",
    "noise_std": "standard deviation of the noise",
    "predictive_accuracy": "test accuracy, averaged",
    "predictive_brier": "Brier score, averaged",
    "predictive_nll": "test loss, averaged",
    "predictive_ece": "calibration error, averaged",
}
COUNTS = ("repetition", "round", "iterations", "channel_uses")
COSTS = ("bits", "seconds")  # how the names of such columns end


def unit(column: str, largest: float) -> Unit:
    """The unit for a column whose values reach up to `largest`.

    >>> unit("uplink_bits", 3.2e9).name
    'Gbit'
    """
    if column in ("accuracy", "predictive_accuracy"):
        return Unit(0.01, "%")
    if column.endswith("bits"):
        return next((step for step in BIT_UNITS if largest >= step.size), BIT_UNITS[-1])
    if column.endswith("seconds"):
        return next((step for least, step in TIME_UNITS if largest >= least), TIME_UNITS[2][1])
    return Unit(1, "")


def meaning(column: str) -> str:
    """A column's name in words.

    >>> meaning("update_norm")
    'update norm'
    """
    return MEANINGS.get(column, column.replace("_", " "))


def label(column: str, largest: float = 0.0) -> str:
    """An axis label or a heading, with its unit.

    >>> label("accuracy")
    'test accuracy (%)'
    """
    name = unit(column, largest).name
    return f"{meaning(column)} ({name})" if name else meaning(column)


def cost(column: str) -> str:
    """What a curve is drawn against, in a sentence.

    >>> cost("uplink_bits")
    'bits sent by all clients'
    """
    return f"bits {meaning(column)}" if column.endswith("link_bits") else meaning(column)


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


def in_words(column: str, value: float) -> str:
    """One value of a column.

    >>> in_words("accuracy", 0.91234), in_words("train_loss", 0.5)
    ('91.23 %', '0.5')
    """
    if column.endswith("seconds"):
        return seconds(value)
    return with_spread(column, value, None)


def with_spread(column: str, mean: float, deviation: float | None) -> str:
    """A mean and, if there is one, the standard deviation around it, in one unit. No ε is no guarantee.

    >>> with_spread("accuracy", 0.91, 0.002), with_spread("test_loss", 0.184412, 0.01088)
    ('91.00 ± 0.20 %', '0.184 ± 0.011')
    """
    if column == "epsilon" and math.isnan(mean):
        return "no guarantee"
    if column == "epsilon":  # never less than it is
        return rounded_up(mean)
    if not math.isfinite(mean):
        return "not finite"
    chosen = unit(column, mean)
    # Every repetition often costs the same, and then there is no spread to speak of.
    alone = deviation is None or not math.isfinite(deviation) or (deviation == 0 and column.endswith(COSTS))
    if deviation is None or alone:
        text = _digits(column, mean / chosen.size)
    elif deviation > 0 and 1e-4 < abs(mean) < 1e6 and not column.endswith((*COSTS, "accuracy")):
        # Two digits of the deviation, and the mean to the same place: more would be noise.
        places = min(max(1 - math.floor(math.log10(deviation)), 0), 6)
        text = f"{mean:.{places}f} ± {deviation:.{places}f}"
    else:
        text = f"{_digits(column, mean / chosen.size)} ± {_digits(column, deviation / chosen.size)}"
    return f"{text} {chosen.name}".rstrip()


def _digits(column: str, value: float) -> str:
    if column in COUNTS:
        return count(value)
    if column == "accuracy":
        return f"{value:.2f}"
    if column.endswith(COSTS):
        return f"{value:.3g}" if value < 1000 else count(value)
    return number(value)
