"""The two ways to convolve agree on every shape that networks by name have; which is taken, by backend and shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hush.core.keys import root
from hush.models import build, layers
from hush.models.convolution import LIBRARY, PATCHES, convolve, way_for
from hush.models.grouped import convolved
from hush.models.products import products_in

pytestmark = pytest.mark.slow

NETWORKS = ("lenet5", "alexnet", "resnet18", "mobilenet_v2")
IMAGES = ((28, 28, 1), (32, 32, 3))


def convolutions(name, shape):
    """Each convolution of a network: the shapes of its image and weights, stride and padding; nothing is computed."""
    found = []
    before = layers.convolve

    def seen(image, weight, stride, padding, way=None):
        found.append((image.shape, weight.shape, stride, padding))
        return before(image, weight, stride, padding, PATCHES)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(layers, "convolve", seen)
        patched.setattr(layers, "traced_once", lambda layer, x, *then: layer(x, *then))  # layers alike are counted, too
        jax.eval_shape(lambda key, x: build(name, shape, 10, key)(x), root(0), jnp.zeros(shape))
    return found


ALL = {(name, shape): convolutions(name, shape) for name in NETWORKS for shape in IMAGES}
# With few channels the same shapes take no time; what differs in channels alone is then one case.
CASES = sorted(
    {(image[:2], weight[0], stride, padding) for found in ALL.values() for image, weight, stride, padding in found}
)


def test_there_are_many_shapes():
    assert len(CASES) > 15
    for name, count in zip(NETWORKS, (2, 5, 20, 40), strict=True):
        assert [len(ALL[name, shape]) for shape in IMAGES] == [count, count]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", [case for case in CASES if case[2] == 1], ids=str)
def test_both_ways_agree(case, precision):
    """Two clients with weights of their own, two images each: outputs, and gradients of images and weights."""
    size, window, stride, padding = case
    draws = np.random.default_rng(1)
    x, weight = draws.normal(size=(2, 2, *size, 3)), draws.normal(size=(2, window, window, 3, 2))

    def found(way):
        def network(weight, x):
            with products_in(precision):
                one = lambda image: convolve(image, weight, stride, padding, way)  # noqa: E731
                return jax.vmap(one)(x)

        def both(weight, x):
            outputs, pull = jax.vjp(jax.vmap(network), weight, x)
            back = jnp.cos(jnp.arange(outputs.size, dtype=jnp.float32)).reshape(outputs.shape)
            return outputs, *pull(back.astype(outputs.dtype))

        return jax.jit(both)(jnp.asarray(weight, jnp.float32), jnp.asarray(x, jnp.float32))

    for one, other in zip(found(LIBRARY), found(PATCHES), strict=True):
        assert one.dtype == other.dtype
        first, second = np.asarray(one, float), np.asarray(other, float)
        apart = np.linalg.norm(first - second) / np.linalg.norm(second)
        assert apart < (1e-5 if precision == "float32" else 1e-2)


@pytest.mark.parametrize("padding", [0, 1])
def test_gradients_by_the_library_are_sums_over_taps(padding):
    """Three clients with weights of their own, two images each, by loops in double precision."""
    draws = np.random.default_rng(2)
    images, weights = draws.normal(size=(3, 2, 6, 5, 3)), draws.normal(size=(3, 3, 3, 3, 4))
    edges = ((0, 0), (0, 0), (padding, padding), (padding, padding), (0, 0))
    padded = np.pad(images, edges)
    rows, columns = padded.shape[2] - 2, padded.shape[3] - 2
    back = draws.normal(size=(3, 2, rows, columns, 4))
    outputs, of_images, of_weights = np.zeros(back.shape), np.zeros(padded.shape), np.zeros(weights.shape)
    for i in range(3):
        for j in range(3):
            seen = np.s_[:, :, i : i + rows, j : j + columns]
            outputs += np.einsum("snhwc,sco->snhwo", padded[seen], weights[:, i, j])
            of_images[seen] += np.einsum("snhwo,sco->snhwc", back, weights[:, i, j])
            of_weights[:, i, j] = np.einsum("snhwc,snhwo->sco", padded[seen], back)
    single = lambda array: jnp.asarray(array, jnp.float32)  # noqa: E731
    found, pull = jax.vjp(lambda *pair: convolved(*pair, padding), single(images), single(weights))
    inner = np.s_[:, :, padding : padding + 6, padding : padding + 5]
    for one, true in zip((found, *pull(single(back))), (outputs, of_images[inner], of_weights), strict=True):
        assert np.linalg.norm(one - true) < 1e-5 * np.linalg.norm(true)


def test_the_library_is_not_asked_for_a_stride():
    with pytest.raises(ValueError, match="stride 1 alone, found stride 2"):
        convolve(jnp.zeros((8, 8, 4)), jnp.zeros((3, 3, 4, 2)), 2, 1, LIBRARY)


@pytest.mark.parametrize(
    "kinds", [("int32", "float32"), ("bfloat16", "float32"), ("float32", "bfloat16"), ("bfloat16",) * 2]
)
def test_numbers_of_other_kinds_are_convolved_alike(kinds):
    """Images of whole numbers, or halves of somebody's own: weights become neither, and have gradients of their own."""
    draws = np.random.default_rng(3)
    image = jnp.asarray(draws.integers(0, 5, (8, 8, 4)).astype(kinds[0]))
    weight = jnp.asarray(draws.normal(size=(3, 3, 4, 5)), kinds[1])

    def both(way):
        total = lambda weight: (convolve(image, weight, 1, 1, way).astype(jnp.float32) ** 2).sum()  # noqa: E731
        return convolve(image, weight, 1, 1, way), jax.grad(total)(weight)

    for one, other in zip(both(LIBRARY), both(PATCHES), strict=True):
        assert one.dtype == other.dtype
        first, second = np.asarray(one, float), np.asarray(other, float)
        assert np.linalg.norm(first - second) < (2e-2 if "bfloat16" in kinds else 1e-5) * np.linalg.norm(second)


@pytest.fixture
def as_on_a_gpu():
    """Has what is traced from then on be as on a GPU; nothing of it is left for others."""
    with pytest.MonkeyPatch.context() as patched:

        def pretend():
            patched.setattr(jax, "default_backend", lambda: "gpu")
            jax.clear_caches()

        yield pretend
    jax.clear_caches()


@pytest.mark.parametrize(("name", "side"), [("lenet5", 16), ("mobilenet_v2", 16), ("resnet18", 8)])
def test_what_a_gpu_computes_otherwise_is_the_same(name, side, as_on_a_gpu):
    """Wider patches, a bias laid over the image, the library's convolution: gradients of two clients are a CPU's."""
    draws = np.random.default_rng(4)
    images = jnp.asarray(draws.normal(size=(2, 2, side, side, 1)), jnp.float32)
    networks = jax.vmap(lambda key: build(name, (side, side, 1), 10, key))(jax.random.split(root(1)))

    def gradients():
        loss = lambda network, images: (jax.vmap(network)(images) ** 2).mean()  # noqa: E731
        return jax.jit(jax.vmap(jax.grad(loss)))(networks, images)

    expected = gradients()
    as_on_a_gpu()
    for one, other in zip(jax.tree.leaves(gradients()), jax.tree.leaves(expected), strict=True):
        assert np.linalg.norm(one - other) <= 1e-4 * np.linalg.norm(other) + 1e-6


def test_only_a_gpu_takes_the_library_and_only_where_it_was_faster():
    everything = [each for found in ALL.values() for each in found]
    for backend in ("cpu", "tpu"):
        assert {way_for(backend, *each[:3]) for each in everything} == {PATCHES}
    by_library = {key: [each for each in found if way_for("gpu", *each[:3]) == LIBRARY] for key, found in ALL.items()}
    assert not any(by_library[name, shape] for name in ("lenet5", "mobilenet_v2") for shape in IMAGES)
    assert [len(by_library["alexnet", shape]) for shape in IMAGES] == [0, 1]
    # Four of the first stage, and three of each other, whose first has a stride; the last see 4×4, or 7×7 and 4×4.
    assert len(by_library["resnet18", (32, 32, 3)]) == 10
    assert len(by_library["resnet18", (28, 28, 1)]) == 7
    assert all(image[0] >= 8 and weight[:2] == (3, 3) for image, weight, *_ in by_library["resnet18", (32, 32, 3)])


def test_the_choice_is_made_for_the_backend_in_use(monkeypatch):
    image, weight = jnp.zeros((16, 16, 64)), jnp.zeros((3, 3, 64, 2))
    program = lambda: str(jax.make_jaxpr(lambda *pair: convolve(*pair, 1, 1))(image, weight))  # noqa: E731
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "convolution_with_own_weights" in program()
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert "convolution_with_own_weights" not in program()
