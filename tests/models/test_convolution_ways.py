"""The two ways to convolve agree on every shape that networks by name have; which is taken, by backend and shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hush.core.keys import root
from hush.models import build, layers
from hush.models.convolution import LIBRARY, PATCHES, convolve, way_for
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
@pytest.mark.parametrize("case", CASES, ids=str)
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
            return outputs, *pull(jnp.cos(jnp.arange(outputs.size, dtype=jnp.float32)).reshape(outputs.shape))

        return jax.jit(both)(jnp.asarray(weight, jnp.float32), jnp.asarray(x, jnp.float32))

    for one, other in zip(found(LIBRARY), found(PATCHES), strict=True):
        assert one.dtype == other.dtype == jnp.float32
        first, second = np.asarray(one, float), np.asarray(other, float)
        apart = np.linalg.norm(first - second) / np.linalg.norm(second)
        assert apart < (1e-5 if precision == "float32" else 1e-2)


def test_only_a_gpu_takes_the_library_and_only_where_it_was_faster():
    everything = [each for found in ALL.values() for each in found]
    for backend in ("cpu", "tpu"):
        assert {way_for(backend, *each[:3]) for each in everything} == {PATCHES}
    by_library = {key: [each for each in found if way_for("gpu", *each[:3]) == LIBRARY] for key, found in ALL.items()}
    assert not any(by_library[name, shape] for name in ("lenet5", "alexnet", "mobilenet_v2") for shape in IMAGES)
    # Four of the first stage, and three of the second, whose first has a stride; on 28×28 images its others see 14×14.
    assert len(by_library["resnet18", (32, 32, 3)]) == 7
    assert len(by_library["resnet18", (28, 28, 1)]) == 4
    assert all(image[0] >= 16 and weight[:2] == (3, 3) for image, weight, *_ in by_library["resnet18", (32, 32, 3)])


def test_the_choice_is_made_for_the_backend_in_use(monkeypatch):
    image, weight = jnp.zeros((16, 16, 64)), jnp.zeros((3, 3, 64, 2))
    program = lambda: str(jax.make_jaxpr(lambda *pair: convolve(*pair, 1, 1))(image, weight))  # noqa: E731
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "conv_general_dilated" in program()
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert "conv_general_dilated" not in program()
