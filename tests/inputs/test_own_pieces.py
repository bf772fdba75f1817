"""A user's own pieces, problems and measures that do not keep to the contract: named before anything is compiled."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.cohort import Uniform
from hush.core import memory
from hush.core.columns import check_measures
from hush.core.contract import Channel, Cohort, Draw, LocalRule, Mixing, ServerRule, Stage
from hush.core.costs import bits_of_round
from hush.core.problem import ClientData, Population, Problem
from hush.core.rehearsal import is_own, rehearse
from hush.execution.admission import check_budget, check_memory, rounds_at_once
from hush.execution.mesh import make
from hush.execution.simulation import Simulation
from hush.local import Gradient, LocalSGD
from hush.tasks.problem import Numbered
from hush.uplink import QSGD, Clip, TopK

D = 3  # numbers of the quadratic's model


class Rule(LocalRule):
    """A local rule whose answer is a function of a right one."""

    answer: object = None
    remembers: object = None
    forgets: object = None
    own: object = None
    shaped: object = None
    needs = ("model",)
    sends = ("update",)

    def init(self, model):
        return {} if self.remembers is None else self.remembers(model)

    def __call__(self, key, broadcast, state, data):
        message, info = {"update": broadcast["model"]}, {"steps": jnp.int32(1)}
        return (message, state, info) if self.answer is None else self.answer(message, info)

    def commit(self, broadcast, state, sent):
        return state if self.forgets is None else self.forgets(state)

    def personal(self, model, memory):
        return None if self.own is None else self.own(model)

    def template(self, model):
        return {"update": model} if self.shaped is None else self.shaped(model)


class Silent(Rule):
    sends = ("gradient",)


class Mute(Rule):
    reports = ()


class Spelled(Rule):
    sends = "update"  # the comma is missing


class Method(Rule):
    def needs(self):
        return ("model",)


class Odd(Stage):
    answer: object = None
    remembers: object = None
    bound: object = None

    @property
    def norm_bound(self):
        return self.bound

    def init(self, vector):
        return {} if self.remembers is None else self.remembers(vector)

    def __call__(self, key, vector, state):
        return self.answer(vector, state)


class Air(Channel):
    answer: object = None

    def __call__(self, key, draw, number, statistics):
        return self.answer(draw)


class Serve(ServerRule):
    answer: object = None
    begin: object = None
    provides = ("model",)
    receives = ("update",)

    def init(self, model):
        return {"model": model} if self.begin is None else self.begin(model)

    def __call__(self, key, state, received, coverage):
        return {"model": state["model"]} if self.answer is None else self.answer(state, received)


class Telling(Serve):
    provides = ("model", "more")


class Shared(Channel):
    """Hands on each message, and says that there is noise on them."""

    hands_each = True

    def __call__(self, key, draw, number, statistics):
        return Mixing(draw.weights, jnp.float32(1.0))


class Taking(Serve):
    takes_each = True


class Crowd(Cohort):
    answer: object = None
    count: object = 2

    def places(self, clients):
        return self.count(clients) if callable(self.count) else self.count

    def __call__(self, key, population, number=0):
        right = Draw(jnp.arange(2), jnp.ones(2) / 2, jnp.array([True, True]), jnp.float32(1))
        return self.answer(right)


def local(answer=None, **more):
    return {"local": Rule(answer, **more)}


def uplink(answer, remembers=None):
    return {"uplink": (Clip(1.0), Odd(answer, remembers))}


def boom(*_):
    raise KeyError("lost")


PIECES = [
    (
        local(lambda m, i: ({"update": m["update"][:2]}, {}, i)),
        r"local \(Rule\) must send 'update' as float32",
    ),
    (local(lambda m, i: ({"update": m["update"][None]}, {}, i)), r"found float32 of shape \(1, 3\)"),
    (local(lambda m, i: ({"update": m["update"].astype(jnp.bfloat16)}, {}, i)), "found bfloat16 of shape"),
    (local(lambda m, i: ({"update": m["update"].astype(int)}, {}, i)), "found int32 of shape"),
    (local(lambda m, i: ({"update": 1.0}, {}, i)), r"must send 'update' as float32 of shape \(3,\), found float"),
    (local(lambda m, i: (m["update"], {}, i)), r"must send a dictionary of \['update'\], found float32 of shape"),
    (local(lambda m, i: ({}, {}, i)), r"must send a dictionary of \['update'\], found a dictionary of nothing"),
    (
        local(lambda m, i: (m | {"more": m["update"]}, {}, i)),
        "found a dictionary of more, update",
    ),
    (local(lambda m, i: m), "must return a message, its memory and an info, found dict"),
    (local(lambda m, i: (m, i)), "must return a message, its memory and an info, found 2 things"),
    (local(lambda m, i: None), "must return a message, its memory and an info, found nothing"),
    (local(lambda m, i: (m, {}, {})), r"must report \['steps'\] in its info, as it declares, found \[\]"),
    (local(lambda m, i: (m, {}, None)), "must return its info as a dictionary, found nothing"),
    (local(lambda m, i: (m, {}, [1])), "must return its info as a dictionary, found list"),
    (
        local(lambda m, i: (m, {}, i | {"norms": jnp.ones(3)})),
        "must return one number for its info 'norms', found float32",
    ),
    (
        local(lambda m, i: (m, {}, i | {"a.b": 1.0})),
        r"the info of local \(Rule\) 'a.b' needs a name of letters, digits",
    ),
    (local(lambda m, i: (m, {}, i | {"round": 1.0})), "'round' has the name of a column of the records"),
    (local(lambda m, i: (m, {}, i | {3: 1.0})), "the call fails with ValueError"),
    (local(boom), r"local \(Rule\): the call fails with KeyError: 'lost'"),
    (local(lambda m, i: m["update"] @ jnp.ones(7)), r"local \(Rule\): the call fails with TypeError: "),
    (local(remembers=lambda m: {"own": m}, forgets=lambda s: {}), "must commit a memory like the one it began with"),
    (local(remembers=lambda m: {"own": m}, forgets=lambda s: {"own": s["own"][:1]}), r"\['own'\] as float32 of shape"),
    (local(remembers=lambda m: {"own": m}, forgets=lambda s: None), "found nothing instead of a dictionary of own"),
    (local(remembers=boom), "init fails with KeyError"),
    (local(lambda m, i: (m, {"own": m["update"]}, i)), "must return a memory like the one it began with"),
    (
        local(remembers=lambda m: {"own": 1.0}),
        r"begin with a memory of arrays, found float at \['own'\]; say jnp.float",
    ),
    (local(remembers=lambda m: {"own": "text"}), r"begin with a memory of arrays, found str at \['own'\]"),
    (
        local(lambda m, i: (m, {"own": 0.5}, i), remembers=lambda m: {"own": m[0].astype(jnp.int32)}),
        r"must return a memory like the one it began with, found \['own'\] as float instead of int32",
    ),
    (local(own=lambda m: m[:1]), r"must have personal models like the problem's, float32 of shape \(3,\), or None"),
    (local(own=boom), r"local \(Rule\): personal fails with KeyError: 'lost'"),
    (
        local(shaped=lambda m: {"update": m[None]}),
        "have a template whose 'update' is a vector of float32, found float32",
    ),
    (local(shaped=lambda m: {"update": m.astype(int)}), "is a vector of float32, found int32 of shape"),
    (local(shaped=lambda m: {"updates": m}), r"have a template of \['update'\], found a dictionary of updates"),
    (local(shaped=boom), "template fails with KeyError"),
    (local(lambda m, i: (m, {}, i | {"update_norm": 1.0})), "leave the lengths of messages to the engine"),
    (local(lambda m, i: (m, {}, i | {"phase": 1j})), "must return one number for its info 'phase', found complex"),
    (local(lambda m, i: (m, {}, i | {"word": "a"})), "must return one number for its info 'word', found str"),
    (local(lambda m, i, k: 3), r"local \(Rule\): the call fails with TypeError: .*missing 1 required positional"),
    (
        {"local": Spelled()},
        r"local \(Spelled\) must declare sends as a tuple of names, found the text 'update'; say sends = ",
    ),
    (
        {"local": Method()},
        r"local \(Method\) must declare needs as a tuple of names, found a method; put @property above",
    ),
    ({"local": Rule}, r"the slot local takes a LocalRule, found the class Rule itself; make one of it: Rule\(…\)"),
    ({"local": Silent(), "server": Serve()}, r"local \(Silent\) must send 'update', found \['gradient'\]"),
    ({"local": Mute()}, r"local \(Mute\) must report 'steps', found \[\]"),
    ({"uplink": (QSGD(3), Odd(lambda v, s: (v, s, {})))}, "after a code only Clip may stand"),
    (uplink(lambda v, s: (v, s)), r"uplink\[1\] \(Odd\) must return a vector, a state and an info, found 2 things"),
    (uplink(lambda v, s: v), "must return a vector, a state and an info, found float32"),
    (uplink(lambda v, s: None), "must return a vector, a state and an info, found nothing"),
    (uplink(lambda v, s: (v[:1], s, {})), r"must send 'update' on as it came, float32 of shape \(3,\), found"),
    (uplink(lambda v, s: (v.astype(jnp.float16), s, {})), "found float16 of shape"),
    (uplink(lambda v, s: (None, s, {})), "on as it came, .* found nothing"),
    (
        uplink(lambda v, s: (v, {"e": v}, {})),
        "found a dictionary of e instead of a dictionary of nothing",
    ),
    (uplink(lambda v, s: (v, s, {}), lambda v: {"e": v}), None),
    (uplink(lambda v, s: (v, s, {}), lambda v: {"e": 0.0}), r"uplink\[1\] \(Odd\) must begin with a state of arrays"),
    (uplink(lambda v, s: (v, s, {"bits": 1.5})), "must return its 'bits' as a whole number, found float"),
    (uplink(lambda v, s: (v, s, {"bits": v})), "must return its 'bits' as a whole number, found float32"),
    (
        {"uplink": (Odd(lambda v, s: (v, s, {}), bound=lambda: 1.0),)},
        "a number, or None, as its norm_bound, found func",
    ),
    (uplink(lambda v, s: (v, None, {}), lambda v: {"e": v}), "must return a state like the one it began with"),
    (uplink(lambda v, s: (v, s, {"seen": v})), "must return one number for its info 'seen'"),
    (uplink(lambda v, s: (v, s, {"f1/macro": 1.0})), "'f1/macro' needs a name of letters, digits and underscores"),
    (uplink(boom), r"uplink\[1\] \(Odd\): the call fails with KeyError: 'lost'"),
    (
        {"channel": Air(lambda d: d.weights)},
        r"channel \(Air\) must return a Mixing of",
    ),
    ({"channel": Air(lambda d: None)}, "must return a Mixing .* found nothing"),
    ({"channel": Air(lambda d: (d.weights, 0.0))}, "must return a Mixing .* found 2 things"),
    (
        {"channel": Air(lambda d: Mixing(jnp.ones(5), 0.0))},
        r"shape \(2,\), found float32 of shape \(5,\)",
    ),
    ({"channel": Air(lambda d: Mixing(1.0, 0.0))}, r"coefficients of shape \(2,\), found float"),
    ({"channel": Air(lambda d: Mixing(d.weights, jnp.ones(3)))}, r"must mix with noise of shape \(\), found"),
    ({"channel": Air(lambda d: Mixing(d.weights, 0.0, jnp.ones(3)))}, r"transmit of shape \(\) or \(2,\), found"),
    ({"channel": Air(boom)}, r"channel \(Air\): the call fails with KeyError"),
    ({"channel": Air(lambda d: Mixing(d.weights, 0.0, grid=3))}, "must mix with a Grid, or None, found int"),
    ({"channel": Shared(), "server": Taking()}, "must hand on every message without noise, 0.0: .* found float32"),
    ({"channel": Shared()}, "channel Shared hands on every message, and server Add works from their sum"),
    (
        {"server": Serve(begin=lambda m: {})},
        r"server \(Serve\) must begin with a state that holds 'model'",
    ),
    ({"server": Serve(begin=lambda m: None)}, "must begin with a state that holds 'model', found nothing"),
    (
        {"server": Serve(begin=lambda m: {"model": m[:1]})},
        "must begin with a model like the problem's",
    ),
    (
        {"server": Serve(begin=lambda m: {"model": m, "round": m})},
        r"leave the names round, common to the engine, found",
    ),
    (
        {"server": Serve(begin=lambda m: {"model": m, "word": "a"})},
        r"begin with a state of arrays, found str at \['word'",
    ),
    (
        {"server": Telling()},
        r"server \(Telling\) must begin with an array for each name it provides, 'more' among them",
    ),
    ({"server": Serve(lambda s, r: {"round": s["round"] + 1})}, "leave the number of the round to the engine"),
    ({"server": Serve(lambda s, r: {"model": 1.0})}, r"\['model'\] as float instead of float32 of shape"),
    ({"server": Serve(lambda s, r: None)}, r"server \(Serve\) must return a state, found nothing"),
    ({"server": Serve(lambda s, r: s["model"])}, "must return a state, found float32"),
    ({"server": Serve(lambda s, r: {"model": s["model"][:2]})}, r"\['model'\] as float32 of shape \(2,\) instead of"),
    ({"server": Serve(lambda s, r: {"model": s["model"].astype(int)})}, r"\['model'\] as int32 of shape"),
    ({"server": Serve(lambda s, r: {"mean": s["model"]})}, r"no more than it began with, .* found \['mean'\] as well"),
    ({"server": Serve(lambda s, r: {"model": r["gradient"]})}, "the call fails with KeyError: 'gradient'"),
    ({"cohort": Crowd(lambda d: d._replace(ids=jnp.arange(3)))}, r"cohort \(Crowd\) must draw ids for its 2 places"),
    ({"cohort": Crowd(lambda d: d._replace(ids=d.weights))}, "must draw ids for its 2 places: integer of shape"),
    ({"cohort": Crowd(lambda d: d._replace(weights=1.0))}, "must draw weights for its 2 places"),
    ({"cohort": Crowd(lambda d: d._replace(active=d.ids))}, "must draw active for its 2 places"),
    ({"cohort": Crowd(lambda d: d._replace(coverage=d.weights))}, "must draw a coverage that is one number"),
    ({"cohort": Crowd(lambda d: tuple(d))}, "must return a Draw of ids, weights, active and coverage, found 4 things"),
    ({"cohort": Crowd(lambda d: None)}, "must return a Draw .* found nothing"),
    (
        {"cohort": Crowd(count=2.0)},
        r"cohort \(Crowd\) must return a whole number of at least 1 as its places, found 2\.0",
    ),
    ({"cohort": Crowd(count=None)}, "as its places, found None"),
    ({"cohort": Crowd(count=0)}, "as its places, found 0"),
    ({"cohort": Crowd(count=boom)}, r"cohort \(Crowd\): places fails with KeyError"),
    ({"cohort": Crowd(boom)}, r"cohort \(Crowd\): the draw fails with KeyError"),
]


@pytest.mark.parametrize(("slots", "sentence"), PIECES)
def test_own_pieces(slots, sentence, quadratic, refused):
    algorithm = {"cohort": Uniform(2), "local": Gradient()} | slots
    if sentence is None:
        rehearse(hush.Algorithm(**algorithm), quadratic)
    else:
        refused(lambda: Simulation(hush.Algorithm(**algorithm), quadratic), sentence)


class Own(Problem):
    """A problem of the user's own, with one thing wrong."""

    measured: object = None
    start: object = None
    pull: object = None
    viewed: object = None
    apart: object = None
    own: object = None
    listed: object = None
    count: object = None
    population: Population = Population(np.array([2, 3]))

    def init(self, key):
        return jnp.zeros(D) if self.start is None else self.start()

    def client(self, index):
        return Mine(self, jnp.asarray(index)) if self.viewed is None else self.viewed(self, index)

    def tables(self):
        return {"": jnp.ones(1)} if self.listed is None else self.listed()

    def evaluate(self, params, batch):
        right = {"train_loss": jnp.sum(jnp.zeros(1))}
        return right if self.measured is None else self.measured(right)


class Mine(Numbered):
    problem: Own
    index: jax.Array

    def gradient(self, params, rows, weights):
        return params if self.problem.pull is None else self.problem.pull(params)

    def example_gradients(self, params, rows):
        return jnp.stack([params] * len(rows)) if self.problem.apart is None else self.problem.apart(params)

    def evaluate(self, params, rows):
        return {"loss": 0.0 * rows} if self.problem.own is None else self.problem.own(rows)

    @property
    def size(self):
        return jnp.int32(2) if self.problem.count is None else self.problem.count


def not_here(*_):
    raise NotImplementedError("nothing of the kind")


def measure(name, value=1.0):
    return {"measured": lambda right: right | {name: jnp.asarray(value)}}


PROBLEMS = [
    (measure("f1/macro"), "the measure 'f1/macro' needs a name of letters, digits and underscores, such as macro_f1"),
    (measure("a.b"), "the measure 'a.b' needs a name"),
    (measure(""), "the measure '' needs a name"),
    (measure("f1 macro"), "the measure 'f1 macro' needs a name"),
    (measure("ε"), "the measure 'ε' needs a name"),
    (measure("a,b\n"), "needs a name of letters"),
    (measure("repetition"), "the measure 'repetition' has the name of a column of the records; taken are"),
    (measure("round"), "has the name of a column of the records"),
    (measure("seconds"), "has the name of a column of the records"),
    (measure("uplink_bits"), "has the name of a column of the records"),
    (measure("downlink_bits"), "has the name of a column of the records"),
    (measure("epsilon"), "has the name of a column of the records"),
    (measure("participants"), "has the name of a column of the records"),
    (measure("iterations"), "has the name of a column of the records"),
    (measure("energy"), "has the name of a column of the records"),
    (measure("update_norm"), "the measure 'update_norm' has the name of a column that the algorithm's pieces add"),
    (measure("each", np.ones(3)), r"the measure 'each' must be one number, found shape \(3,\)"),
    (measure("phase", 1j), "the measure 'phase' must be a real number, found complex64"),
    ({"measured": lambda right: {}}, "evaluate must return train_loss, found nothing"),
    ({"measured": lambda right: {"loss": right["train_loss"]}}, "evaluate must return train_loss, found loss"),
    ({"measured": lambda right: right["train_loss"]}, "evaluate must return a dictionary of measures"),
    ({"measured": lambda right: None}, "evaluate must return a dictionary of measures, found NoneType"),
    ({"measured": boom}, r"the problem \(Own\): evaluate fails with KeyError"),
    ({"start": lambda: None}, "init of Own must return parameters to train, found none"),
    ({"start": dict}, "init of Own must return parameters to train, found none"),
    ({"start": lambda: jnp.zeros(3, jnp.bfloat16)}, "parameters of Own must be float32, found bfloat16"),
    ({"start": lambda: {"w": jnp.zeros(3), "count": jnp.zeros(1, int)}}, r"found int32 at \['count'\]"),
    ({"start": boom}, r"the problem \(Own\): init fails with KeyError: 'lost'"),
    (
        {"pull": lambda params: params[:2]},
        r"\(Mine\) must return from gradient what is like the parameters, found .*2,",
    ),
    ({"pull": boom}, r"a client of the problem \(Mine\): gradient fails with KeyError: 'lost'"),
    ({"viewed": lambda p, i: None}, r"the problem \(Own\) must give a client's view as a ClientData, found nothing"),
    ({"viewed": lambda p, i: [Mine(p, i)][int(i)]}, r"the problem \(Own\): client fails with Concret"),
    ({"pull": lambda params: {"w": params}}, "like the parameters, found a dictionary of w instead of float32"),
    ({"apart": lambda params: params}, "what is like the parameters, stacked over examples, found"),
    ({"apart": not_here}, None),
    ({"own": not_here}, None),
    (
        {"own": lambda rows: {"loss": jnp.float32(1)}},
        r"evaluate to measures of shape \(2,\) for 2 examples, found loss as",
    ),
    ({"own": lambda rows: 3}, r"evaluate to measures of shape \(2,\) for 2 examples, found int"),
    (
        {"count": jnp.float32(2)},
        r"a client of the problem \(Mine\) must have a whole number as its size, found float32",
    ),
    ({"listed": lambda: [1]}, r"the problem \(Own\) must return its tables by name, found list"),
    ({"listed": lambda: {"test": 3}}, "must give the weight of every row of the table 'test', an array"),
    ({"listed": boom}, "tables fails with KeyError"),
    ({"population": [2, 3]}, r"the problem \(Own\) must have a Population, found list"),
]


@pytest.mark.parametrize(("wrong", "sentence"), PROBLEMS)
def test_own_problems(wrong, sentence, refused):
    if sentence is None:
        rehearse(hush.Algorithm(Uniform(2), Gradient()), Own(**wrong))
        return
    refused(lambda: Simulation(hush.Algorithm(Uniform(2), Gradient()), Own(**wrong)), sentence)


def test_a_right_piece_and_problem_of_ones_own_pass():
    algorithm = hush.Algorithm(Crowd(lambda d: d), Rule(), (Odd(lambda v, s: (v, s, {})),), Air(_even), Serve())
    rehearse(algorithm, Own())
    assert is_own(algorithm)
    assert is_own(hush.tasks.potentials(lambda p, d: jnp.sum(p * d), np.ones((2, 3)), np.zeros(3)))
    assert not is_own(hush.fedpaq(2, steps=1))


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Cohort, r"cohort \(Empty\) must have __call__, places; see"),
        (LocalRule, r"local \(Empty\) must have __call__, needs, sends; see"),
        (Stage, r"uplink \(Empty\) must have __call__; see"),
        (hush.uplink.Coder, r"uplink \(Empty\) must have bits, decode, encode, pack, unpack; see"),
        (Channel, r"channel \(Empty\) must have __call__; see"),
        (ServerRule, r"server \(Empty\) must have __call__, init, provides, receives; see"),
        (Problem, r"the problem \(Empty\) must have client, evaluate, init; see"),
        (ClientData, r"a client of the problem \(Empty\) must have example_gradients, gradient, population, size, "),
    ],
)
def test_what_a_class_leaves_out(kind, sentence):
    with pytest.raises(TypeError, match=sentence):
        type("Empty", (kind,), {})()


def _even(draw):
    return Mixing(draw.weights, 0.0)


def test_names_in_a_measure_must_be_text():
    number = SimpleNamespace(shape=(), dtype=np.dtype("float32"))
    with pytest.raises(ValueError, match="the measure 3 needs a name"):
        check_measures({3: number, "train_loss": number})
    with pytest.raises(ValueError, match="must be one number, found float"):
        check_measures({"train_loss": 1.0})


def test_memory_is_told_before_it_is_asked_for(quadratic, monkeypatch, refused):
    algorithm = hush.scaffold(2, steps=1)
    monkeypatch.setattr(memory, "_of_machine", lambda: 10**6)
    sentence = r"this run needs at least .* MB of memory, and there are 1\.0 MB here: .* for .*; make fewer repetitions"
    refused(lambda: Simulation(algorithm, quadratic, repetitions=2000), sentence)
    # By hand: every lane has a model and a control variate of 3 numbers and a round; six clients another 3 each.
    lanes, clients, numbers = 2000, 6, 3
    states = lanes * (4 * (2 * numbers + 1) + 4 * clients * numbers)
    logs, ledger = lanes * 10 * 2 * 17, lanes * clients * 8 * 4
    monkeypatch.setattr(memory, "_of_machine", lambda: states + logs + ledger)
    check_memory(algorithm, quadratic, lanes, 2, make(1, 1), 10)
    monkeypatch.setattr(memory, "_of_machine", lambda: states + logs + ledger - 1)
    with pytest.raises(ValueError, match="this run needs at least"):
        check_memory(algorithm, quadratic, lanes, 2, make(1, 1), 10)


def test_logs_of_many_lanes_are_fetched_more_often():
    assert rounds_at_once(1, 10, 1) == 64
    assert rounds_at_once(10**5, 10**3, 2) == 1


def test_a_round_that_a_budget_does_not_pay_for(quadratic):
    plain = hush.fedavg(2, steps=1)
    assert bits_of_round(plain, quadratic) == 2 * 32 * D
    assert bits_of_round(hush.scaffold(2, steps=1), quadratic) == 2 * 2 * 32 * D
    assert bits_of_round(hush.feddane(2, steps=1), quadratic) == 2 * 2 * 32 * D
    quantised = hush.fedpaq(2, steps=1, levels=4)
    assert bits_of_round(quantised, quadratic) == 2 * QSGD(4).fixed_bits(D)
    # Of these nobody knows before what they cost.
    assert bits_of_round(hush.fedpaq(2, steps=1, code="elias"), quadratic) == 0
    assert bits_of_round(hush.Algorithm(Uniform(2), LocalSGD(0.1, steps=1), (TopK(1),)), quadratic) in (0, _top(2))
    assert bits_of_round(hush.dp_fedavg(2, 6, clip=1.0, noise_multiplier=1.0, steps=1), quadratic) == 0
    assert bits_of_round(hush.over_the_air(), quadratic) == 0
    check_budget(plain, quadratic, 2 * 32 * D)
    check_budget(plain, quadratic, None)
    with pytest.raises(ValueError, match="a bit_budget of 191 does not pay for one round, which costs 192 bits"):
        check_budget(plain, quadratic, 2 * 32 * D - 1)


def _top(places):
    return places * (TopK(1).fixed_bits(D) or 0)


def test_groups_limit_memory(tmp_path, monkeypatch):
    monkeypatch.undo()  # the machine's own again
    group = tmp_path / "jobs" / "mine"
    group.mkdir(parents=True)
    (tmp_path / "groups").write_text("0::/jobs/mine\n")
    (tmp_path / "jobs" / "memory.max").write_text("1000\n")
    (tmp_path / "jobs" / "memory.current").write_text("700\n")
    (tmp_path / "jobs" / "memory.stat").write_text("anon 600\ninactive_file 100\n")
    (group / "memory.max").write_text("max\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 7 kB\n")
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    assert memory._of_group() == 400
    assert memory.on_host() == 400
    (tmp_path / "jobs" / "memory.max").write_text("max\n")
    assert memory.on_host() == 7 * 1024
