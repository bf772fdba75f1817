"""What a traced program holds at the most: by hand, by a plain walk, and beside what a compiler needs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from hush.core import memory
from hush.execution import layout
from hush.execution.held import most_held

ROW = jax.ShapeDtypeStruct((1000,), np.float32)  # 4,000 bytes


def held(function, *arguments):
    return most_held(jax.make_jaxpr(function)(*arguments).jaxpr)


def test_a_chain_holds_two_results_at_a_time():
    assert held(lambda x: jnp.sin(jnp.cos(jnp.exp(x))), ROW) == 8000


def test_what_is_used_later_is_kept_until_then():
    def first_and_last(x):
        first = jnp.exp(x)
        return jnp.cos(jnp.sin(jnp.tanh(first))) + first

    assert held(first_and_last, ROW) == 12_000


def test_inputs_are_not_counted_and_a_result_nobody_uses_only_while_it_is_made():
    def unused(x):
        jnp.exp(x)
        return jnp.sin(x)

    assert held(unused, ROW) == 4000
    assert held(lambda x: x, ROW) == 0


def test_a_loop_holds_what_its_body_does():
    def body(so_far, _):
        return jnp.sin(jnp.cos(jnp.exp(so_far))), so_far.sum()

    found = held(lambda x: jax.lax.scan(body, x, None, length=50), ROW)
    inside = held(lambda x: body(x, None), ROW)
    assert found == inside + 4000 + 50 * 4  # its body, the row that it ends with, and a sum of each turn
    assert inside == 8000


def test_what_is_called_twice_is_held_once():
    inner = jax.jit(lambda x: jnp.sin(jnp.cos(jnp.exp(x))))
    assert held(lambda x: inner(inner(x)), ROW) == 4000 + 4000 + 8000  # argument, result and within


def test_of_two_branches_the_larger_one():
    small, large = jnp.exp, lambda x: jnp.sin(jnp.cos(jnp.exp(x)))
    chosen = held(lambda which, x: jax.lax.cond(which, small, large, x), True, ROW)
    assert chosen == held(lambda which, x: jax.lax.cond(which, large, large, x), True, ROW)
    assert chosen > held(lambda which, x: jax.lax.cond(which, small, small, x), True, ROW)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_straight_programs_by_a_plain_walk(data):
    """Random sums of earlier results of several lengths, the last of them the answer."""
    sizes = [data.draw(st.integers(1, 9)) for _ in range(data.draw(st.integers(2, 8)))]
    pairs = [tuple(data.draw(st.integers(0, place)) for _ in range(2)) for place in range(len(sizes))]

    def program(x):
        known = [x]
        for (one, other), size in zip(pairs, sizes, strict=True):
            known.append(_merge(size).bind(known[one], known[other]))
        return known[-1]

    uses = {place: max([i for i, pair in enumerate(pairs) if place in pair], default=-1) for place in range(len(sizes))}
    most = 0
    for now, size in enumerate(sizes):
        alive = [sizes[place - 1] for place in range(1, now + 1) if uses[place] >= now]
        most = max(most, 4 * (sum(alive) + size))
    assert held(program, np.zeros(3, np.float32)) == most


def _merge(size):
    """An operation of two arrays of any length that answers with one of this length."""
    merge = jax.extend.core.Primitive("merge")
    merge.def_abstract_eval(lambda one, other: one.update(shape=(size,)))
    return merge


def test_bytes_of_keys_and_halves():
    assert memory.bytes_of(jax.random.key(0)) == 8
    assert memory.bytes_of(jax.ShapeDtypeStruct((3, 5), jnp.bfloat16)) == 30


def problem_of(model, side, clients=4):
    shape, count = (side, side, 3), 16 * clients
    x, y = np.zeros((count, *shape), np.float32), np.arange(count) % 10
    return hush.tasks.arrays(x, y, np.repeat(np.arange(clients), 16), model=model)


@pytest.mark.parametrize(
    ("model", "side"),
    [("mlp", 8), ("lenet5", 28), pytest.param("resnet18", 8, marks=pytest.mark.slow)],
)
def test_a_compiler_needs_no_more(model, side):
    for traced in layout._client_steps(hush.fedavg(2, steps=2, batch=8), problem_of(model, side)):
        analysis = traced.lower().compile().memory_analysis()
        needed = analysis.temp_size_in_bytes + analysis.output_size_in_bytes
        assert most_held(traced.jaxpr.jaxpr) >= needed


class Machine:
    """A device with so much memory."""

    def __init__(self, limit):
        self.limit = limit

    def memory_stats(self):
        return {"bytes_limit": self.limit, "bytes_in_use": 0}


def test_nothing_is_compiled_where_there_is_room_to_spare(monkeypatch):
    problem, algorithm = problem_of("mlp", 8), hush.fedavg(2, steps=2, batch=8)
    traced = layout._client_steps(algorithm, problem)
    each = most_held(traced[0].jaxpr.jaxpr)
    analysis = traced[0].lower().compile().memory_analysis()
    needed = analysis.temp_size_in_bytes + analysis.output_size_in_bytes
    limit = int(10 * each / layout.MEMORY_SHARE) + 10
    monkeypatch.setattr(layout.jax, "local_devices", lambda: [Machine(limit)])
    # With room for ten by the bound the compiler is asked for the eleventh.
    assert layout._clients_that_fit(algorithm, problem, 11) == int(layout.MEMORY_SHARE * limit / needed)
    monkeypatch.setattr(jax.stages.Traced, "lower", lambda *_: pytest.fail("it was compiled"))
    assert layout._clients_that_fit(algorithm, problem, 10) == 10
