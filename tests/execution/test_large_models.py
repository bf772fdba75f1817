"""A model cut over devices: the results are those of the whole one, and each device has its part of the memory."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import hush
from hush.core.cut import axis_to_cut
from hush.core.flat import dimension, ravel, unravelled
from hush.core.keys import root
from hush.execution import engine, mesh
from hush.execution.simulation import Simulation
from hush.models import over_devices
from hush.settings import build

pytestmark = pytest.mark.slow

SIZES = [1, 9, 4, 5, 2, 7]
DRAWS = np.random.default_rng(5)
X = DRAWS.normal(size=(sum(SIZES), 6)).astype(np.float32)
Y = DRAWS.integers(0, 3, sum(SIZES))
CLIENTS = np.repeat(np.arange(len(SIZES)), SIZES)


def problem(devices=1, model="mlp", **options):
    """Six clients; with a model by its name, its options say over how many devices it is cut."""
    asked = {"hidden": (8, 10)} | options | ({"devices": devices} if devices != 1 else {})
    given = {"model_options": asked} if isinstance(model, str) else {}
    return hush.tasks.arrays(X, Y, CLIENTS, model=model, test=(X[:5], Y[:5]), **given)


def module():
    return eqx.nn.MLP(6, 3, 8, depth=2, key=jax.random.key(3))


def parameters(simulation, lane=0):
    """A lane's model as the user gets it, by its arrays."""
    made = simulation.problem.present(unravelled(simulation.problem, simulation.models[lane]))
    return jax.tree.leaves(eqx.filter(made, eqx.is_inexact_array))


def run(algorithm, task, rounds=3, **options):
    simulation = Simulation(algorithm, task, **options)
    simulation.advance(rounds)
    return simulation


def same(cut, whole, lane=0):
    for ours, theirs in zip(parameters(cut, lane), parameters(whole, lane), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    for name, value in whole.evaluate().items():
        np.testing.assert_allclose(cut.evaluate()[name], value, rtol=1e-4, atol=1e-5)


SCAFFOLD = hush.scaffold(clients=4, steps=2, lr=0.1, batch=3)
FEDAVG = hush.fedavg(clients=4, steps=2, lr=0.1, batch=3)


@pytest.mark.parametrize(("axis", "shape"), [(1, (3, 8, 6)), (0, (4, 4)), (None, (5, 3)), (None, ()), (2, (9, 3, 2))])
def test_the_longest_axis_that_divides(axis, shape):
    assert axis_to_cut(shape, 2) == axis


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_parts_hold_every_parameter_once(devices):
    """Numbered parameters: row m of a part is the m-th block along its axis, and the flat model holds all in rows."""
    tree = {"a": jnp.arange(60.0).reshape(5, 12), "b": 100 + jnp.arange(7.0), "c": 200 + jnp.arange(24.0).reshape(4, 6)}
    made = over_devices((lambda key: tree, lambda params, inputs: inputs), devices)
    rows = made.init(root(0))
    assert all(part.shape[0] == devices for part in rows.parts)
    for row in range(devices):
        block = np.array_split(np.asarray(tree["a"]), devices, axis=1)[row]
        np.testing.assert_array_equal(rows.parts[0][row], block.ravel())
    vector, unravel = ravel(rows)
    assert vector.size % devices == 0
    assert vector.size > sum(leaf.size for leaf in tree.values())
    for back in (made.rebuild(rows), made.rebuild(unravel(vector))):
        assert jax.tree.all(jax.tree.map(lambda one, other: bool((one == other).all()), back, tree))
    own = np.asarray(vector).reshape(devices, -1)
    np.testing.assert_array_equal(own[:, : rows.parts[0].shape[1]], rows.parts[0])
    numbers = np.sort(np.asarray(vector)[np.asarray(vector) > 0])
    np.testing.assert_array_equal(numbers, np.sort(ravel_pytree(tree)[0][1:]))


def test_fedavg_is_that_of_the_whole_model():
    same(run(FEDAVG, problem(2)), run(FEDAVG, problem(), devices=1))


def test_scaffold_is_that_of_the_whole_model():
    cut, whole = run(SCAFFOLD, problem(2)), run(SCAFFOLD, problem(), devices=1)
    same(cut, whole)
    for ours, theirs in zip(jax.tree.leaves(cut.clients), jax.tree.leaves(whole.clients), strict=True):
        np.testing.assert_allclose(np.linalg.norm(ours, axis=-1), np.linalg.norm(theirs, axis=-1), rtol=1e-3, atol=1e-5)


def test_a_gradient_of_clipped_examples_is_that_of_the_whole_model():
    cut, whole = problem(2), problem()
    model = whole.init(root(1))
    rows, weights = jnp.arange(5), jnp.full(5, 0.2)
    ours, theirs = (
        eqx.filter_jit(lambda task, params: task.client(1).clipped_gradient(params, rows, weights, 0.3))(task, params)
        for task, params in ((cut, cut.init(root(1))), (whole, model))
    )
    for one, other in zip(jax.tree.leaves(cut.present(ours)), jax.tree.leaves(whole.present(theirs)), strict=True):
        if eqx.is_inexact_array(other):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def deep(devices):
    """A model whose arrays are long beside its activations."""
    return problem(devices, hidden=(64,) * 6)


def memory(simulation):
    """Bytes that the compiled rounds take on one device: what they are handed, and what they need meanwhile."""
    bounds = jnp.int32(0), jnp.int32(1)
    made = engine.advance.lower((simulation._inputs, bounds), simulation._state).compile().compiled
    found = made.memory_analysis()
    return found.argument_size_in_bytes + found.temp_size_in_bytes


@pytest.mark.parametrize("algorithm", [FEDAVG, SCAFFOLD])
def test_memory_on_each_device_is_halved(algorithm):
    whole = Simulation(algorithm, deep(1), devices=1, clients_at_once=1)
    cut = Simulation(algorithm, deep(2))
    assert memory(cut) / memory(whole) < 0.55


def test_every_device_holds_its_part_of_the_state():
    simulation = run(SCAFFOLD, problem(2))
    vectors = [leaf for leaf in jax.tree.leaves(simulation._state) if leaf.shape[-1] == simulation.dimension]
    assert len(vectors) >= 3  # the model, the server's control variate and the clients'
    for vector in vectors:
        assert len(vector.addressable_shards) == 2
        assert {shard.data.shape[-1] for shard in vector.addressable_shards} == {simulation.dimension // 2}


def test_no_array_of_a_models_size_is_gathered():
    """Activations and the tail are sent between devices; a layer's weights, or the flat model, never."""
    simulation = Simulation(FEDAVG, deep(2))
    bounds = jnp.int32(0), jnp.int32(1)
    program = engine.advance.lower((simulation._inputs, bounds), simulation._state).compile().compiled.as_text()
    sent = [line for line in program.splitlines() if " all-gather(" in line or " all-to-all(" in line]
    sizes = [np.prod([int(size) for size in line.split("[")[1].split("]")[0].split(",") if size]) for line in sent]
    assert max(sizes, default=0) < 64 * 64


def test_a_module_of_ones_own_starts_cut():
    """What it starts from is not whole on every device either; a part of it that is frozen is cut as well."""
    frozen = hush.models.frozen(module(), ["*layers[0].weight"])
    cut = run(FEDAVG, problem(model=over_devices(frozen, 2)))
    same(cut, run(FEDAVG, problem(model=frozen), devices=1))
    weight = cut.placed.model.inner.skeleton.layers[0].weight
    assert {shard.data.size for shard in weight.addressable_shards} == {weight.size // 2}


def test_a_transformer_is_that_of_the_whole_model():
    """Embeddings, attention, norms and a head of a number of tokens that no device divides."""
    windows, owners = np.random.default_rng(1).integers(0, 31, (24, 17)), np.arange(24) // 6

    def trained(devices, cut):
        options = {"width": 32, "heads": 2} | cut
        task = hush.tasks.tokens(windows, owners, model="gpt", model_options=options, vocabulary=31, test=windows[:5])
        return run(FEDAVG, task, devices=devices)

    same(trained(2, {"devices": 2}), trained(1, {}))


def test_repetitions_and_several_clients_at_once():
    cut = run(FEDAVG, problem(2), repetitions=2, clients_at_once=2)
    whole = run(FEDAVG, problem(), repetitions=2, devices=1)
    same(cut, whole, lane=1)


def test_a_streamed_run():
    cut = run(SCAFFOLD, problem(2), streamed=True)
    same(cut, run(SCAFFOLD, problem(), devices=1))
    whole = run(SCAFFOLD, problem(2))
    for name, value in whole.evaluate_clients().items():
        np.testing.assert_allclose(cut.evaluate_clients()[name], value, rtol=1e-4, atol=1e-5)


def test_going_on_from_a_checkpoint_changes_nothing():
    straight, first = run(SCAFFOLD, problem(2), rounds=4), run(SCAFFOLD, problem(2), rounds=2)
    second = Simulation(SCAFFOLD, problem(2))
    second.restore(first.state())
    assert {shard.data.shape[-1] for shard in second._state.server["model"].addressable_shards} == {
        second.dimension // 2
    }
    second.advance(2)
    np.testing.assert_array_equal(second.models, straight.models)


@pytest.mark.usefixtures("unpainted")
def test_a_run_in_a_folder_goes_on_with_the_same_cut_alone(tmp_path):
    hush.run(FEDAVG, problem(2), rounds=1, folder=tmp_path / "run")
    result = hush.run(FEDAVG, problem(2), rounds=2, folder=tmp_path / "run", resume=True)
    assert result.status["round"] == 2
    assert result.model()(jnp.zeros((1, 6, 1))).shape == (3,)
    other = hush.load(tmp_path / "run", problem=problem(2))
    np.testing.assert_array_equal(other.vector, result.vector)
    with pytest.raises(ValueError, match="model"):
        hush.load(tmp_path / "run", problem=problem(4))


def test_noise_is_other_draws_of_the_same_law():
    """√d · std is how long Gaussian noise is, to 4 deviations of its length, in the whole model and in the cut one."""
    noisy = hush.dp_fedavg(4, len(SIZES), clip=1e-3, noise_multiplier=100.0, steps=1, batch=3)
    for devices in (1, 2):
        task = problem(devices)
        simulation = Simulation(noisy, task, devices=devices)
        before = simulation.models[0]
        simulation.advance(1)
        drawn = (simulation.models[0] - before) * 4 / 0.1  # a mean over 4 clients; noise of 0.1 in their sum
        assert abs(np.linalg.norm(drawn) - np.sqrt(dimension(task))) < 4


def test_what_does_not_go_is_refused():
    with pytest.raises(ValueError, match=r"cut over 5 devices, and there are \d"):
        Simulation(FEDAVG, problem(5))
    with pytest.raises(ValueError, match=r"cut over 2 devices.*found devices=3"):
        Simulation(FEDAVG, problem(2), devices=3)
    with pytest.raises(ValueError, match=r"model_options=.*'devices': 2"):
        over_devices("mlp", 2)
    with pytest.raises(ValueError, match="already"):
        over_devices(over_devices(module(), 2), 2)
    with pytest.raises(ValueError, match="devices"):
        over_devices(module(), 1)
    with pytest.raises(ValueError, match="devices"):
        problem(0)
    with pytest.raises(ValueError, match=r"torch.nn.Module cannot be cut"):
        over_devices(type("Linear", (), {"__module__": "torch.nn.modules.linear"})(), 2)
    with pytest.raises(ValueError, match="no layer is a range"):
        hush.ranges_of(problem(2), ["*bias"])


def test_samples_by_name_are_refused():
    with pytest.raises(ValueError, match="cut over 2 devices"):
        hush.run(FEDAVG, problem(2), rounds=2, sample_every=1)


def test_several_processes_are_refused(monkeypatch):
    monkeypatch.setattr("hush.execution.hosts.processes", lambda: 2)
    with pytest.raises(ValueError, match="in one process"):
        mesh.make(1, None, 2)


class Unaware(hush.local.Gradient):
    """A rule that takes the order of arrays for the order of the flat model."""

    def __call__(self, key, broadcast, memory, data):
        rows, weights = self.batches(key, 1, data)
        gradient = data.gradient(data.unravel(broadcast["model"]), rows[0], weights[0])
        return {"update": -ravel_pytree(gradient)[0]}, memory, {"steps": jnp.int32(1)}


def test_a_rule_that_mistakes_the_order_is_refused():
    algorithm = replace(hush.distributed_sgd(), local=Unaware())
    Simulation(algorithm, problem(), devices=1)
    with pytest.raises(ValueError, match="Unaware"):
        Simulation(algorithm, problem(2))


def test_settings_say_it_too():
    table = {"name": "digits", "clients": 4, "model": "mlp", "model_options": {"hidden": 8, "devices": 2}}
    made = build({"algorithm": {"name": "fedavg", "steps": 1}, "task": table})
    assert made.problem().devices_per_model == 2


def test_a_guarantee_of_a_cut_model_tells_of_frozen_weights():
    private = hush.dp_fedavg(4, len(SIZES), clip=1.0, noise_multiplier=1.0)
    frozen = hush.models.frozen(module(), ["*layers[0].weight"])
    said = [
        hush.privacy.describe(private, problem(model=model), 5).phases[0].assumptions
        for model in (frozen, over_devices(frozen, 2))
    ]
    assert said[0] == said[1]
