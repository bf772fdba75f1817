"""The columns of the records, all in one table: what each is called, means, is counted in, and how it is put together.

The ledger and the run loop write them, the checks of pieces and problems keep their names free, and plots, tables,
reports and the documents say what they are; all of them go by this table. Problems and pieces of a user's own may add
columns that are not in it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from hush.core.check import shown

Role = Literal["identity", "measure", "total", "information"]
UnitName = Literal["", "count", "clients", "share", "bit", "s", "ε"]
# Where a column is shown: wherever a run is shown; from its summary on; from full tables on; in the records alone.
EVERYWHERE, SUMMARIES, TABLES, RECORDS_ONLY = range(1, 5)
# Several repetitions or lanes as one number.
AGGREGATES: dict[str, Callable[[Any], Any]] = {"mean": np.mean, "max": np.max}


class Column(NamedTuple):
    """A column of the records.

    An identity says which row it is. A measure is of the problem, and stands before the totals. A total is what a run
    has cost so far. Information is a mean over the clients and rounds since the row before.
    """

    name: str
    label: str  # in a few words, for an axis or a heading
    meaning: str  # in a sentence, for the documents and the report
    role: Role
    unit: UnitName = ""
    aggregate: Literal["mean", "max"] = "mean"
    shown_in: int = TABLES
    axis: int = 0  # its place among what the curves of a page are drawn against; 0 is none
    short: str = ""  # one word for it on the line that shows how a run gets on; none is not shown there
    higher_is_better: bool = False

    @property
    def linear(self) -> bool:
        """Whether it is never drawn on a logarithmic axis."""
        return self.role == "total" or self.unit in ("share", "clients")


# fmt: off
COLUMNS = (
    Column("repetition", "repetition", "the number of the independent repetition", "identity", "count"),
    Column("round", "rounds", "how many rounds are done", "identity", "count", shown_in=EVERYWHERE, axis=3),
    Column("train_loss", "training loss", "the loss on all clients' training data", "measure", short="loss"),
    Column("test_loss", "test loss", "the loss on the test examples", "measure", shown_in=SUMMARIES),
    Column("perplexity", "perplexity",
           "of text: exp(test_loss), the loss of a token of the test, each counted once", "measure",
           shown_in=EVERYWHERE, short="perplexity"),
    Column("accuracy", "test accuracy", "the share of the test examples that are classified rightly", "measure",
           "share", shown_in=EVERYWHERE, short="accuracy", higher_is_better=True),
    Column("client_accuracy", "accuracy on clients' own data",
           "the accuracy of the model on each client's own data, a mean over the clients", "measure", "share",
           higher_is_better=True),
    Column("client_accuracy_worst_tenth", "the same, worst tenth of clients",
           "the same over the tenth of the clients that it serves worst", "measure", "share", higher_is_better=True),
    Column("personal_accuracy", "accuracy of personal models",
           "the accuracy of each client's personal model on its own data, a mean over the clients", "measure", "share",
           higher_is_better=True),
    Column("personal_accuracy_worst_tenth", "personal models, worst tenth of clients",
           "the same over the tenth of the clients whose models are worst", "measure", "share", higher_is_better=True),
    Column("client_loss", "loss on clients' own data",
           "where there is no accuracy: the loss on each client's own data, a mean over the clients", "measure"),
    Column("client_loss_worst_tenth", "the same, worst tenth of clients",
           "the same over the tenth of the clients that the model serves worst", "measure"),
    Column("personal_loss", "loss of personal models",
           "where there is no accuracy: the loss of each client's personal model on its own data", "measure"),
    Column("personal_loss_worst_tenth", "personal models, worst tenth of clients",
           "the same over the tenth of the clients whose models are worst", "measure"),
    Column("predictive_accuracy", "test accuracy, averaged",
           "the accuracy of predictions averaged over the posterior samples so far", "measure", "share",
           higher_is_better=True),
    Column("predictive_brier", "Brier score, averaged",
           "the Brier score of these, from 0 to 2: their squared distance from the truth", "measure"),
    Column("predictive_nll", "test loss, averaged", "their mean negative log-likelihood", "measure"),
    Column("predictive_ece", "calibration error, averaged",
           "their expected calibration error: how far they are from being right as often as they are sure", "measure"),
    Column("uplink_bits", "sent by all clients", "the bits that all clients have sent so far", "total", "bit",
           shown_in=EVERYWHERE, axis=1, short="sent"),
    Column("downlink_bits", "sent to all clients", "the bits that all clients have been told so far", "total", "bit"),
    Column("iterations", "local steps of a client",
           "local steps of a client so far: in each round, the mean over those who take part", "total", "count",
           shown_in=RECORDS_ONLY, axis=4),
    Column("channel_uses", "channel uses",
           "how often the channel was used so far, over the air: by all clients of a round at once", "total", "count",
           shown_in=SUMMARIES, axis=2),
    Column("energy", "energy on the air", "the energy that all clients have put on the air so far", "total", axis=6),
    Column("epsilon", "privacy spent, ε",
           "ε of the client that has spent most so far, where there is a privacy guarantee", "total",
           "ε", aggregate="max", shown_in=EVERYWHERE, axis=5, short="ε"),
    Column("seconds", "training time", "time in rounds so far; compiling and evaluating are left out", "total", "s",
           shown_in=SUMMARIES, axis=7),
    Column("channel_seconds", "time on the channel",
           "the time that the bits sent so far take on the channel, where its capacity is given", "total", "s", axis=8),
    Column("participants", "clients taking part", "how many clients take part in a round", "information", "clients"),
    Column("update_norm", "update norm", "the length of a client's update as it is sent", "information"),
    Column("control_norm", "control norm", "the length of what a client sends for the control variate", "information"),
    Column("below_norm", "below norm", "the length of what a client sends on whether its update was clipped",
           "information"),
    Column("length_norm", "length norm", "the number of local steps that a client sends beside its update",
           "information"),
    Column("clipped", "share of messages clipped", "the share of messages that are longer than the clipping bound",
           "information", "share"),
    Column("clip", "clipping bound", "the bound that is adapted to the lengths of the updates", "information"),
    Column("noise_std", "standard deviation of the noise",
           "the standard deviation of the noise that a client adds to its whole update", "information"),
    Column("residual_norm", "residual norm", "the length of what error feedback holds back for later", "information"),
    Column("snr", "signal-to-noise ratio of what is received",
           "the power of the signal over that of the noise, over the air", "information"),
    Column("local_norm", "length of an update before the uplink",
           "the length of a client's update before anything is done to it, where clients are watched", "information"),
    Column("cosine", "cosine to the last global update",
           "the cosine of the angle between a client's update and the last global one, where clients are watched",
           "information"),
)
# fmt: on
KNOWN = {column.name: column for column in COLUMNS}
TOTALS = tuple(column.name for column in COLUMNS if column.role == "total")
# Bits first: what hush is about is what is said to get somewhere, not how many rounds it took.
AXES = tuple(column.name for column in sorted(COLUMNS, key=lambda column: column.axis) if column.axis)
# Measures on each client's own data, of the model and of personal ones.
ON_OWN_DATA = tuple(
    f"{kind}_{measure}{which}"
    for kind in ("client", "personal")
    for measure in ("accuracy", "loss")
    for which in ("", "_worst_tenth")
)
# The columns that a run itself writes: no problem and no piece may add another of these names.
TAKEN = (*(column.name for column in COLUMNS if column.role in ("identity", "total")), *ON_OWN_DATA, "participants")
# What is known of each client at the end of a run, where names mean the client's own part.
OF_A_CLIENT = {
    "rounds": "rounds it took part in",
    "uplink_bits": "sent by it",
    "downlink_bits": "sent to it",
    "energy": "its energy on the air",
    "epsilon": "ε of a client",
    "loss": "loss on its own data",
    "accuracy": "accuracy on its own data",
    "personal_loss": "loss of its personal model",
    "personal_accuracy": "accuracy of its personal model",
}
# What is known of a classifier's probabilities on the test examples.
SCORES = {"accuracy": "accuracy", "brier": "Brier score", "nll": "negative log-likelihood", "ece": "calibration error"}


# Of columns that are not in the table, those of which more is better: by a word of the name, and scikit-learn's others.
GAINS = {"accuracy", "auc", "corrcoef", "f1", "jaccard", "neg", "precision", "r2", "recall"}
GAINING = (
    "adjusted_mutual_info_score",
    "adjusted_rand_score",
    "completeness_score",
    "d2_absolute_error_score",
    "d2_brier_score",
    "d2_log_loss_score",
    "explained_variance",
    "fowlkes_mallows_score",
    "homogeneity_score",
    "mutual_info_score",
    "normalized_mutual_info_score",
    "positive_likelihood_ratio",
    "rand_score",
    "v_measure_score",
)


def column(name: str) -> Column:
    """What is known of a column; of one that is not in the table, what its name says.

    >>> column("uplink_bits").label, column("macro_f1").label, column("server_seconds").unit
    ('sent by all clients', 'macro f1', 's')
    """
    if name in KNOWN:
        return KNOWN[name]
    unit: UnitName = "bit" if name.endswith("bits") else "s" if name.endswith("seconds") else ""
    meaning = "what a metric, a problem or a piece of one's own calls so"
    better = bool(GAINS & set(name.split("_"))) or name in GAINING
    return Column(name, name.replace("_", " "), meaning, "measure", unit, higher_is_better=better)


def in_order(names: Iterable[str]) -> list[str]:
    """Those that are in the table in its order, and then the others in their own."""
    names = list(names)
    known = [each for each in KNOWN if each in names]
    return known + [name for name in names if name not in KNOWN]


def together(name: str, values: Any) -> float:
    """The values of several lanes or repetitions as one number."""
    return float(AGGREGATES[column(name).aggregate](values))


def check_measures(measured: Any, seen: Iterable[str] = ()) -> None:
    """Refuse measures of a problem that cannot be columns of the records; `seen` are columns that pieces add."""
    if not isinstance(measured, Mapping):
        raise ValueError(f"evaluate must return a dictionary of measures, found {type(measured).__name__}")
    for name, value in measured.items():
        check_column("the measure", name)
        if name in seen:
            raise ValueError(f"the measure {name!r} has the name of a column that the algorithm's pieces add")
        if not hasattr(value, "shape") or value.shape != ():
            found = f"shape {value.shape}" if hasattr(value, "shape") else type(value).__name__
            raise ValueError(f"the measure {name!r} must be one number, found {found}")
        if jax.numpy.issubdtype(value.dtype, jax.numpy.complexfloating):
            raise ValueError(f"the measure {name!r} must be a real number, found {value.dtype}")
    if "train_loss" not in measured:
        raise ValueError(f"evaluate must return train_loss, found {', '.join(measured) or 'nothing'}")


def check_column(what: str, name: Any) -> None:
    """Refuse a name that would break the records or hide one of their columns."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise ValueError(f"{what} {shown(name)} needs a name of letters, digits and underscores, such as macro_f1")
    if name in TAKEN:
        raise ValueError(f"{what} {name!r} has the name of a column of the records; taken are {', '.join(TAKEN)}")
