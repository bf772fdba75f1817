"""An algorithm fills the five slots; `InTurn` lets several share a round."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from hush.core.aside import Called
from hush.core.check import scalar, shown, unknown_yet
from hush.core.coding import check_chain
from hush.core.contract import Channel, Cohort, LocalRule, ServerRule, Stage, State
from hush.core.plain import Add, Digital
from hush.core.problem import Vector
from hush.core.summing import Summable


class Algorithm(eqx.Module):
    """One way to fill the five slots."""

    cohort: Cohort
    local: LocalRule
    uplink: tuple[Stage, ...] = ()
    channel: Channel = Digital()
    server: ServerRule = Add()
    called: Called = eqx.field(static=True, default=Called(), repr=False, kw_only=True)

    def __check_init__(self) -> None:
        if not isinstance(self.uplink, tuple):
            raise ValueError(f"the uplink must be a tuple of Stages, such as (Clip(1.0),), found {shown(self.uplink)}")
        slots: tuple[tuple[str, Any, type], ...] = (
            ("cohort", self.cohort, Cohort),
            ("local", self.local, LocalRule),
            ("channel", self.channel, Channel),
            ("server", self.server, ServerRule),
            *((f"uplink[{j}]", stage, Stage) for j, stage in enumerate(self.uplink)),
        )
        for name, piece, kind in slots:
            if not isinstance(piece, kind):
                raise ValueError(f"the slot {name} takes a {kind.__name__}, {_found(piece)}")
        check_chain(self.uplink)
        _check_names("local", self.local, "needs", "sends", "reports")
        _check_names("server", self.server, "provides", "receives", "keeps_to_itself")
        _check_declared(self.local)
        missing = set(self.server.receives) - set(self.local.sends)
        if missing:
            raise ValueError(
                f"server {type(self.server).__name__} works from {sorted(missing)}, "
                f"which local {type(self.local).__name__} does not send; it sends {list(self.local.sends)}"
            )
        _check_meeting(self.channel, self.server)
        _check_sums(self)
        _check_bound(self.channel.message_bound, self.uplink)
        if self.cohort.with_replacement and keeps_memory(self):
            raise ValueError(
                f"cohort {type(self.cohort).__name__} may draw a client twice in a round, but its clients carry state "
                f"(local {type(self.local).__name__}); use a cohort without replacement"
            )

    @property
    def phases(self) -> tuple["Algorithm", ...]:
        """What happens in a round, in order."""
        return (self,)


def _found(piece: Any) -> str:
    if isinstance(piece, type):
        return f"found the class {piece.__name__} itself; make one of it: {piece.__name__}(…)"
    return f"found {type(piece).__name__}: {piece!r}"


def _check_names(slot: str, piece: Any, *declared: str) -> None:
    """Refuse what is no tuple of names: a text is one of its letters, and a method needs `@property`."""
    for what in declared:
        names = getattr(piece, what)
        if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
            found = type(names).__name__
            if callable(names):
                found = "a method; put @property above it"
            elif isinstance(names, str):
                found = f'the text {names!r}; say {what} = ("{names}",)'
            raise ValueError(f"{slot} ({type(piece).__name__}) must declare {what} as a tuple of names, found {found}")


def _check_declared(local: LocalRule) -> None:
    """Refuse a rule that does not send or report what every round needs."""
    for what, name, declared in (("send", "update", local.sends), ("report", "steps", local.reports)):
        if name not in declared:
            raise ValueError(f"local ({type(local).__name__}) must {what} {name!r}, found {list(declared)}")


def _check_meeting(channel: Channel, server: ServerRule) -> None:
    """Refuse a server rule that works from another thing than the channel hands it."""
    names = f"channel {type(channel).__name__}", f"server {type(server).__name__}"
    if channel.hands_each and (channel.analogue or channel.aware):
        raise ValueError(f"{names[0]} cannot hand on every message: what is added up in the air is heard as a sum only")
    if server.takes_each and not channel.hands_each:
        raise ValueError(f"{names[1]} works from every message, and {names[0]} hands it their sum; use channel Each")
    if channel.hands_each and not server.takes_each:
        raise ValueError(
            f"{names[0]} hands on every message, and {names[1]} works from their sum; use channel Digital, or a server "
            "rule such as Median around it"
        )


def _check_sums(phase: Algorithm) -> None:
    """Refuse codes that mean something in a sum only, where each is read by itself, and the other way round."""
    summed = [stage for stage in phase.uplink if isinstance(stage, Summable)]
    names = f"channel {type(phase.channel).__name__}", ", ".join(type(stage).__name__ for stage in summed)
    if summed and not phase.channel.sums_codes:
        raise ValueError(f"the codes of {names[1]} mean something in a sum only, found {names[0]}; use SecureSum")
    if phase.channel.sums_codes and (len(summed) != 1 or phase.uplink[-1] is not summed[0]):
        found = [type(stage).__name__ for stage in phase.uplink]
        raise ValueError(f"{names[0]} adds up codes; put the stage Modular last in the uplink, once, found {found}")
    if phase.channel.sums_codes and phase.cohort.padded and keeps_memory(phase):
        raise ValueError(
            f"in a cohort {type(phase.cohort).__name__} a round may have too few clients for {names[0]}, and what its "
            "clients remember of it would be wrong; use a cohort of fixed size"
        )


def _check_bound(bound: Any, uplink: tuple[Stage, ...]) -> None:
    """Refuse messages that could be longer than a channel allows."""
    if bound is None:
        return
    bound, kept = scalar(bound), scalar(uplink[-1].norm_bound if uplink else None)
    # Inside a compiled program neither is known: they have been judged before, as plain numbers.
    if kept is None or not (unknown_yet(bound) or unknown_yet(kept) or kept <= bound):
        found = "nothing" if kept is None else f"a bound of {kept}"
        raise ValueError(f"the channel takes messages of norm {bound} at most; put Clip({bound}) last, found {found}")


class InTurn(eqx.Module):
    """Several algorithms in every round, one after the other, on one server state: each with a cohort of its own."""

    phases: tuple[Algorithm, ...]
    called: Called = eqx.field(static=True, default=Called(), repr=False, kw_only=True)

    def __check_init__(self) -> None:
        if not self.phases or not all(isinstance(phase, Algorithm) for phase in self.phases):
            raise ValueError(f"InTurn takes one or more Algorithms, found {self.phases!r}")
        kept = [name for phase in self.phases for name in phase.server.keeps_to_itself]
        if len(set(kept)) < len(kept):
            raise ValueError(
                f"the phases of a round share one server state, in which only one may keep {sorted(set(kept))}, found "
                f"{', '.join(type(phase.server).__name__ for phase in self.phases)}"
            )


Made = TypeVar("Made", bound=Algorithm | InTurn)


def named(algorithm: Made, name: str) -> Made:
    """The same algorithm, called by a name as long as it has the pieces that it has now."""
    return replace(algorithm, called=Called(name, tuple(_pieces(algorithm))))


def name_of(algorithm: Algorithm | InTurn) -> str:
    """What it is called; nothing where it has no name, or has other pieces than what was called so."""
    return algorithm.called.name if algorithm.called.pieces == tuple(_pieces(algorithm)) else ""


def pieces(part: Any) -> Iterator[Any]:
    """Every piece of an algorithm or of a part of one, the inner ones too."""
    if isinstance(part, tuple | list):
        for each in part:
            yield from pieces(each)
    if isinstance(part, eqx.Module):
        yield part
        for field in fields(part):
            yield from pieces(getattr(part, field.name, None))


def _pieces(part: Any, place: str = "") -> Iterator[str]:
    """Every piece by its place and kind; how many clients, steps and the like there are is no matter."""
    inner: list[tuple[Any, Any]] = list(enumerate(part)) if isinstance(part, tuple | list) else []
    if isinstance(part, eqx.Module):
        yield f"{place} {type(part).__module__}.{type(part).__qualname__}"
        inner = [(field.name, getattr(part, field.name, None)) for field in fields(part)]
    for name, each in inner:
        yield from _pieces(each, f"{place}.{name}")


def keeps_memory(phase: Algorithm) -> bool:
    """Whether a client remembers anything from one round to the next, or may for all that can be seen here."""
    try:
        return bool(jax.tree.leaves(init_client(phase, jnp.zeros(1))))
    except ValueError:  # a rule about parts of a model, which one of a single number has not
        return True


def check(algorithm: Algorithm | InTurn) -> None:
    """Refuse an algorithm in which a client needs what no server piece provides."""
    provided = {name for phase in algorithm.phases for name in phase.server.provides}
    for phase in algorithm.phases:
        missing = set(phase.local.needs) - provided
        if missing:
            raise ValueError(
                f"local {type(phase.local).__name__} needs {sorted(missing)} from the server, which provides "
                f"{sorted(provided)}; a control variate, for instance, needs the server AddWithControl"
            )


def init_server(algorithm: Algorithm | InTurn, model: Vector) -> State:
    """The server's state before the first round."""
    state: State = {"round": jnp.int32(0)}
    for phase in reversed(algorithm.phases):
        state |= phase.server.init(model)
    return state


def init_client(phase: Algorithm, model: Vector) -> State:
    """One client's state before its first round: the local rule's, and each stage's for each message."""
    template = phase.local.template(model)
    stages = {name: tuple(stage.init(vector) for stage in phase.uplink) for name, vector in template.items()}
    return {"local": phase.local.init(model), "uplink": stages}
