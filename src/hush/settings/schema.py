"""The schema: what the pieces and functions themselves declare. There is no second one."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, get_type_hints

from hush.channel import CHANNELS, DIVISORS, FADINGS, POWER_RULES, Divisor, Fading, PowerRule
from hush.cohort import COHORTS
from hush.core.aside import Aside
from hush.core.contract import Channel, Cohort, LocalRule, ServerRule, Stage
from hush.core.grid import Grid
from hush.core.optimisers import LocalOptimiser
from hush.core.schedules import SCHEDULES
from hush.local import BATCHES, DIRECTIONS, LOCAL_RULES, ORACLES, Batches, Direction, Oracle
from hush.models.parts import parted
from hush.server import SERVER_RULES
from hush.uplink import INTEGER_NOISES, STAGES, IntegerNoise

REQUIRED = object()  # the default of a field that has none

# What a field may hold, by the kind of piece it is declared with.
TABLES: dict[type, dict[str, Any]] = {
    Cohort: COHORTS,
    LocalRule: LOCAL_RULES,
    Batches: BATCHES,
    Direction: DIRECTIONS,
    Oracle: ORACLES,
    Stage: STAGES,
    Grid: {"grid": Grid},
    IntegerNoise: INTEGER_NOISES,
    LocalOptimiser: {"local_optimiser": LocalOptimiser},
    Channel: CHANNELS,
    Fading: FADINGS,
    PowerRule: POWER_RULES,
    Divisor: DIVISORS,
    ServerRule: SERVER_RULES,
}


@dataclass(frozen=True)
class Field:
    """One thing that can be set."""

    name: str
    hint: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is REQUIRED


def schema(made_by: Callable[..., Any], keyword_only: bool = False) -> dict[str, Field]:
    """What a piece's class or a function takes, by name; `keyword_only` leaves out what it is called with by place."""
    hints = get_type_hints(made_by)
    factories = {}
    if isinstance(made_by, type) and is_dataclass(made_by):
        factories = {f.name: f.default_factory for f in fields(made_by) if f.default_factory is not MISSING}
    found = {}
    for name, parameter in inspect.signature(made_by).parameters.items():
        if keyword_only and parameter.kind is not parameter.KEYWORD_ONLY:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue  # has no names that could be given
        if isinstance(parameter.default, Aside):
            continue  # what it is called is no setting of it
        default = REQUIRED if parameter.default is parameter.empty else parameter.default
        found[name] = Field(name, hints.get(name, Any), factories[name]() if name in factories else default)
    return found


def model_schema(model: Callable[..., Any]) -> dict[str, Field]:
    """What `model_options` may say of a model by name: its own settings, and those that all models take."""
    cut = {"devices": Field("devices", int, 1)}  # over how many the model is cut
    return schema(model, keyword_only=True) | schema(parted, keyword_only=True) | cut


def pieces_for(kind: type) -> dict[str, Any]:
    """The table of the pieces that may stand where `kind` is declared; empty if `kind` is no kind of piece."""
    for base, table in TABLES.items():
        if issubclass(kind, base):
            return {name: piece for name, piece in table.items() if issubclass(piece, kind)}
    return {}


def name_of(piece: Any) -> str:
    """A piece's name in its table, or `module:Class` for one of the user's own."""
    for table in (*TABLES.values(), SCHEDULES):
        for name, kind in table.items():
            if type(piece) is kind:
                return name
    kind = type(piece) if not inspect.isroutine(piece) else piece
    return f"{kind.__module__}:{kind.__qualname__}"
