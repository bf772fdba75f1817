"""Frozen and trained parts of a model: only the trained are params, and a low-rank pair begins as nothing."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import hush
from hush.core.flat import dimension
from hush.models import build, frozen, lora, merged, trainable
from hush.models.layers import Linear
from hush.models.lora import LowRank
from hush.privacy import describe
from hush.store.fingerprint import fingerprint

pytestmark = pytest.mark.slow  # many small runs, which add up

DRAWS = np.random.default_rng(0)
X, Y, OWNERS = DRAWS.normal(size=(24, 5)).astype(np.float32), np.arange(24) % 3, np.arange(24) % 4


def module(seed=0):
    return eqx.nn.MLP(5, 3, 7, depth=1, key=jax.random.key(seed))


def problem(model):
    return hush.tasks.arrays(X, Y, OWNERS, model=model, test=(X, Y))


def size(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def run(made, rounds=2, **options):
    algorithm = hush.fedavg(clients=2, steps=2, lr=0.5, batch=3)
    return hush.run(algorithm, made, rounds=rounds, progress=False, **options)


class TestParts:
    def test_only_what_is_named_is_trained_and_sent(self):
        base = module()
        made = problem(trainable(base, ["*layers[1]*"]))
        assert dimension(made) == 3 * 7 + 3
        assert list(hush.parameters(made)) == [".layers[1].weight", ".layers[1].bias"]
        result = run(made, repetitions=2)
        assert (result.records["uplink_bits"] == result.records["round"] * 2 * 32 * 24).all()
        for lane in range(2):
            found = result.model(lane)
            assert type(found) is eqx.nn.MLP
            np.testing.assert_array_equal(found.layers[0].weight, base.layers[0].weight)
            assert np.abs(found.layers[1].weight - base.layers[1].weight).max() > 1e-3
        last = result.records[result.records["round"] == 2]["accuracy"].iloc[0]
        assert np.mean(jax.vmap(result.model(0))(X).argmax(1) == Y) == pytest.approx(last)

    def test_names_functions_and_marks_mean_the_same(self):
        base = module()
        nothing = jax.tree.map(lambda _: False, base)
        marks = eqx.tree_at(lambda tree: tree.layers[1], nothing, True)
        ways = [trainable(base, ["*[1].w*", "*[1].b*"]), trainable(base, lambda name: "[1]" in name)]
        ways += [trainable(base, marks), frozen(base, ["*layers[0]*"])]
        for way in ways:
            assert eqx.tree_equal(way.start, ways[0].start)
            np.testing.assert_array_equal(way(X[0]), base(X[0]))
        again = trainable(ways[0], ["*layers[0].bias"])
        assert size(again.start) == 7

    def test_frozen_arrays_are_handed_to_programs_and_not_built_into_them(self):
        """Arrays of NumPy too."""
        base = eqx.tree_at(lambda tree: tree.layers[0].weight, module(), np.ones((7, 5), np.float32))
        made = problem(trainable(base, ["*layers[1]*"]))
        arrays = [leaf.shape for leaf in jax.tree.leaves(eqx.filter(made.model.skeleton, eqx.is_array))]
        assert (7, 5) in arrays
        assert not any(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(made))

    def test_examples_are_clipped_by_what_is_trained_alone(self):
        """Models of layers that are known by heart are no exception, though all of their layers are called."""
        base = build("mlp", (1, 5, 1), 3, jax.random.key(0), hidden=6)
        made = problem(trainable(base, ["*layers[3]*"]))
        params, rows, weights = made.init(jax.random.key(0)), jnp.arange(4), jnp.full(4, 0.25)
        network = lambda params, x: made.model.rebuild(params)(x)  # noqa: E731
        loss = lambda params, x, y: jax.nn.logsumexp(network(params, x)) - network(params, x)[y]  # noqa: E731
        x, y = made.client(1).examples(rows)
        gradient = jax.jit(jax.grad(loss))
        each = [np.asarray(ravel_pytree(gradient(params, x[row], y[row]))[0]) for row in rows]
        bound = 0.5 * min(map(np.linalg.norm, each))
        expected = sum(0.25 * bound * one / np.linalg.norm(one) for one in each)
        found = jax.jit(lambda params: made.client(1).clipped_gradient(params, rows, weights, bound))(params)
        np.testing.assert_allclose(ravel_pytree(found)[0], expected, rtol=1e-4, atol=1e-7)

    def test_a_changed_frozen_weight_is_another_run(self, tmp_path):
        base = module()
        other = eqx.tree_at(lambda tree: tree.layers[0].bias, base, base.layers[0].bias.at[2].add(1e-3))
        one, changed = (problem(trainable(each, ["*layers[1]*"])) for each in (base, other))
        prints = [fingerprint(hush.fedavg(steps=1), made, {}) for made in (one, changed, one)]
        assert prints[0].differences(prints[2]) == []
        assert prints[0].differences(prints[1]) == ["problem.model.skeleton.layers.0.bias"]
        run(one, folder=tmp_path / "run")
        with pytest.raises(ValueError, match=r"problem\.model\.skeleton\.layers\.0\.bias"):
            run(changed, rounds=3, folder=tmp_path / "run", resume=True)

    def test_a_guarantee_says_what_it_takes_for_public(self):
        algorithm = hush.dp_fedavg(clients=2, population=4, steps=1, clip=1.0, noise_multiplier=1.0)
        assumed = [
            assumption
            for model in (module(), trainable(module(), ["*layers[1]*"]))
            for phase in describe(algorithm, problem(model), 3).phases
            for assumption in phase.assumptions
        ]
        assert sum("frozen weights" in assumption for assumption in assumed) == 1

    def test_what_cannot_be_trained_is_refused(self):
        with pytest.raises(ValueError, match=r"no parameter is called '\*head\*'; there are \.layers\[0\]"):
            trainable(module(), ["*head*"])
        with pytest.raises(ValueError, match="none of the arrays of MLP is to be trained"):
            trainable(module(), lambda name: False)
        with pytest.raises(ValueError, match="none of the arrays of MLP"):
            frozen(module(), ["*"])
        with pytest.raises(ValueError, match="patterns must be a list of texts, found '\\*layers\\*'"):
            trainable(module(), "*layers*")
        with pytest.raises(ValueError, match="True or False in place of every array, found 3"):
            trainable(module(), jax.tree.map(lambda _: 3, module()))
        with pytest.raises(ValueError, match="parts of an equinox module can be frozen, found 'mlp'"):
            trainable("mlp", ["*"])


class TestLowRank:
    @pytest.mark.parametrize("make", [module, lambda: build("mlp", (1, 5, 1), 3, jax.random.key(0), hidden=7)])
    def test_begins_as_the_module_itself(self, make):
        base = make()
        adapted = lora(base, rank=2, key=jax.random.key(1))
        assert size(adapted.start) == 2 * (5 + 7) + 2 * (7 + 3)
        np.testing.assert_array_equal(jax.vmap(adapted)(X), jax.vmap(base)(X))

    def test_is_trained_sent_and_merged(self):
        base = module()
        made = problem(lora(base, rank=2, alpha=6.0, key=jax.random.key(1)))
        count = 2 * (5 + 7) + 2 * (7 + 3)
        result = run(made)
        assert result.status["dimension"] == count
        assert result.records["uplink_bits"].iloc[-1] == 2 * 2 * 32 * count
        tuned = result.model(0)
        plain = merged(tuned)
        assert jax.tree.structure(plain) == jax.tree.structure(base)
        first = tuned.layers[0]
        assert isinstance(first, LowRank)
        np.testing.assert_array_equal(first.base.weight, base.layers[0].weight)
        expected = np.asarray(first.base.weight, np.float64) + 3 * np.asarray(first.B, np.float64) @ first.A
        np.testing.assert_allclose(plain.layers[0].weight, expected, rtol=1e-5, atol=1e-6)
        assert np.abs(expected - base.layers[0].weight).max() > 1e-3
        np.testing.assert_allclose(jax.vmap(plain)(X), jax.vmap(tuned)(X), rtol=1e-4, atol=1e-5)

    def test_of_some_layers_and_something_beside_them(self):
        base = build("gpt", (1, 6, 1), 5, jax.random.key(0), width=8, depth=2, heads=2)
        adapted = lora(
            base, rank=3, key=jax.random.key(1), where=["*attention.query", "*attention.value"], also=["*last*"]
        )
        assert size(adapted.start) == 2 * 2 * 3 * (8 + 8) + 2 * 8
        window = jnp.arange(6) % 5
        np.testing.assert_array_equal(adapted(window), base(window))
        same = lora(
            base,
            3,
            key=jax.random.key(1),
            where=lambda name: name.endswith(("query", "value")),
            also=lambda name: "last" in name,
        )
        assert eqx.tree_equal(adapted, same)

    def test_draws_another_matrix_for_every_layer_and_key(self):
        base = eqx.nn.MLP(4, 4, 4, depth=1, key=jax.random.key(0))
        matrices = [layer.A for seed in (0, 1) for layer in lora(base, key=jax.random.key(seed)).start.layers]
        assert len({float(matrix[0, 0]) for matrix in matrices}) == 4

    def test_the_second_matrix_alone(self):
        """What FFA-LoRA trains: A stays as it was drawn."""
        adapted = lora(module(), rank=2, key=jax.random.key(1))
        assert size(trainable(adapted, ["*.B"]).start) == 2 * (7 + 3)

    def test_what_cannot_be_adapted_is_refused(self):
        key = jax.random.key(0)
        with pytest.raises(ValueError, match="merge them first"):
            lora(lora(module(), key=key), key=key)
        with pytest.raises(ValueError, match="LayerNorm has no linear layers to adapt"):
            lora(eqx.nn.LayerNorm(3), key=key)
        with pytest.raises(ValueError, match=r"no parameter is called '\*query'"):
            lora(module(), key=key, where=["*query"])
        with pytest.raises(ValueError, match="rank must be a whole number"):
            lora(module(), rank=0, key=key)
        with pytest.raises(ValueError, match="no linear layers"):
            lora(eqx.nn.Linear("scalar", 3, key=key), key=key)

    def test_a_layer_of_many_rows_at_once(self):
        """As hush's own are called, and beside one of equinox's of the same weights."""
        layer = Linear(5, 3, jax.random.key(0))
        pair = lora(layer, rank=2, key=jax.random.key(1)).skeleton
        full = LowRank(layer, jnp.asarray(DRAWS.normal(size=(2, 5)), jnp.float32), jnp.ones((3, 2)), 0.5)
        assert isinstance(pair, LowRank)
        expected = X @ (layer.weight + 0.5 * full.B @ full.A).T
        np.testing.assert_allclose(full(X), expected, rtol=1e-4, atol=1e-5)
