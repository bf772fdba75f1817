"""What PyTorch modules are fed and in which mode: tokens, images of either order, dropout."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='PyTorch is an extra: pip install "hush[torch]"')

from torch import nn  # noqa: E402

from hush.models.torch_module import TorchModule  # noqa: E402

CLASSES = 3


class Noting(nn.Module):  # type: ignore[misc]
    """A module, and the kinds and shapes of what it has been fed."""

    def __init__(self, inner: Any, seen: list[Any]) -> None:
        super().__init__()
        self.inner, self.note = inner, lambda x: seen.append((x.dtype, tuple(x.shape[1:])))

    def forward(self, inputs: Any) -> Any:
        self.note(inputs)
        return self.inner(inputs)


def outputs(module: Any, inputs: Any) -> Any:
    model = TorchModule(module)
    return np.asarray(model.apply(model.start, jnp.asarray(inputs)))


def of_torch(module: Any, inputs: Any) -> Any:
    with torch.no_grad():
        return module(torch.from_numpy(inputs)).numpy()


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kind", [np.int32, np.uint8])
def test_tokens_stay_integers(kind: Any) -> None:
    seen: list[Any] = []
    module = Noting(nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, CLASSES)), seen)
    tokens = np.random.default_rng(0).integers(0, 5, (6, 3)).astype(kind)
    np.testing.assert_allclose(outputs(module, tokens), of_torch(module, tokens.astype(np.int64)), rtol=1e-6, atol=1e-6)
    assert set(seen) == {(torch.int64, (3,))}


def test_one_hot_words_and_no_gradient_for_them() -> None:
    """Such a module takes 64 bits and nothing else; what has no gradient may still be asked for one."""
    function = lambda x: nn.functional.one_hot(x, 5).float().flatten(1)  # noqa: E731

    class Hot(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(15, CLASSES)

        def forward(self, tokens: Any) -> Any:
            return self.head(function(tokens))

    model, tokens = TorchModule(Hot()), jnp.array([[0, 4, 2], [1, 1, 3]])
    total = lambda params, tokens: jnp.sum(model.apply(params, tokens) ** 2)  # noqa: E731
    weights, none = jax.jit(jax.grad(total, (0, 1), allow_int=True))(model.start, tokens)
    assert none.dtype == jax.dtypes.float0
    assert none.shape == tokens.shape
    hot = np.asarray(jax.nn.one_hot(tokens, 5)).reshape(2, 15)
    answers = hot @ np.asarray(model.start["head.weight"]).T + np.asarray(model.start["head.bias"])
    np.testing.assert_allclose(weights["head.weight"], 2 * answers.T @ hot, rtol=1e-5, atol=1e-5)


def convolution(channels: int) -> Any:
    return nn.Sequential(nn.Conv2d(channels, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(8, 3))


@pytest.mark.parametrize(
    ("make", "shape", "fed"),
    [
        (lambda: convolution(3), (8, 6, 3), (3, 8, 6)),  # channels last are moved
        (lambda: convolution(3), (3, 8, 6), (3, 8, 6)),  # channels first stay
        (lambda: convolution(1), (1, 8, 8), (1, 8, 8)),
        (lambda: convolution(1), (8, 8, 1), (1, 8, 8)),
        (lambda: convolution(4), (4, 4, 4), (4, 4, 4)),  # either would do: taken for channels last
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 3)), (3, 4, 4), (4, 3, 4)),  # and so is this
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), (8, 8), (8, 8)),  # no axis of channels
        (lambda: nn.Sequential(nn.Unflatten(1, (1, 8)), convolution(1)), (8, 8), (8, 8)),
    ],
)
def test_images_of_either_order(make: Callable[[], Any], shape: tuple[int, ...], fed: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    seen: list[Any] = []
    module, images = make(), normal(4, *shape)
    found = outputs(Noting(module, seen), images)
    assert seen[-1] == (torch.float32, fed)
    moved = shape != fed or shape == (4, 4, 4)
    expected = of_torch(module, np.moveaxis(images, 3, 1).copy() if moved else images)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_several_shapes_with_one_module() -> None:
    """Each shape is decided by itself, and once."""
    torch.manual_seed(0)
    module = convolution(3)
    model = TorchModule(module)
    for shape, moved in (((3, 8, 6), False), ((8, 6, 3), True), ((3, 5, 5), False), ((3, 8, 6), False)):
        images = normal(2, *shape)
        expected = of_torch(module, np.moveaxis(images, 3, 1).copy() if moved else images)
        np.testing.assert_allclose(model.apply(model.start, jnp.asarray(images)), expected, rtol=1e-5, atol=1e-6)


def test_images_that_fit_in_no_order() -> None:
    message = r"failed on a batch \(2, 5, 8, 6\): .*; the model Sequential failed on a batch \(2, 8, 6, 5\)"
    with pytest.raises(ValueError, match=message):
        outputs(convolution(3), normal(2, 8, 6, 5))


class Functional(nn.Module):  # type: ignore[misc]
    """Dropout without a layer of its own, as many modules have it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, CLASSES)

    def forward(self, inputs: Any) -> Any:
        return nn.functional.dropout(self.linear(inputs), 0.5, self.training)


class Scaled(Functional):
    """No randomness, and yet another function in training."""

    def forward(self, inputs: Any) -> Any:
        return self.linear(inputs) * (2.0 if self.training else 1.0)


class Two(Functional):
    """In training also what is to be trained besides."""

    def forward(self, inputs: Any) -> Any:
        outputs = self.linear(inputs)
        return (outputs, outputs) if self.training else outputs


def encoder() -> Any:
    layer = nn.TransformerEncoderLayer(6, 2, 4, dropout=0.1, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(12, CLASSES))


def after(layer: Any) -> Any:
    return nn.Sequential(nn.Linear(6, CLASSES), layer)


@pytest.mark.parametrize(
    ("make", "layers"),
    [
        (lambda: after(nn.Dropout(1e-6)), r"'1' \(Dropout\);"),
        (lambda: after(nn.Sequential(nn.Dropout(1.0))), r"'1.0' \(Dropout\);"),
        (lambda: after(nn.AlphaDropout(0.5)), r"'1' \(AlphaDropout\);"),
        (lambda: after(nn.RReLU()), r"'1' \(RReLU\);"),
        (lambda: after(nn.Sequential(nn.Dropout(), nn.ReLU(), nn.Dropout())), r"'1.0' \(Dropout\), '1.2' \(Dropout\);"),
        (Functional, "itself;"),
        (Scaled, "itself;"),
        (Two, "itself;"),
        (encoder, r"'0.self_attn' \(MultiheadAttention\), '0.dropout' \(Dropout\), '0.dropout1'"),
    ],
)
def test_dropout_in_training_mode_is_refused_by_name(make: Callable[[], Any], layers: str) -> None:
    torch.manual_seed(0)
    module = make()
    inputs = normal(2, 2, 6) if make is encoder else normal(2, 6)
    state = torch.random.get_rng_state()
    with pytest.raises(ValueError, match=rf"works otherwise in training mode.*: {layers}.*p=0.*\.eval\(\)"):
        outputs(module, inputs)
    np.testing.assert_allclose(outputs(module.eval(), inputs), of_torch(module, inputs), rtol=1e-5, atol=1e-6)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_layers_that_are_off_or_do_nothing() -> None:
    inputs = normal(3, 6)
    for layer in (nn.Dropout(0.5).eval(), nn.Dropout(0.0), nn.RReLU().eval()):
        module = after(layer)
        assert module.training
        found, mode = outputs(module, inputs), layer.training
        assert layer.training is mode
        np.testing.assert_allclose(found, of_torch(module, inputs), rtol=1e-5, atol=1e-6)


def test_batch_normalisation_that_is_fixed() -> None:
    module = nn.Sequential(nn.Linear(6, CLASSES), nn.BatchNorm1d(CLASSES))
    module(torch.randn(8, 6))
    module[1].eval()
    inputs = normal(4, 6)
    np.testing.assert_allclose(outputs(module, inputs), of_torch(module, inputs), rtol=1e-5, atol=1e-6)


def test_words_that_are_made_shorter_as_they_are_looked_up() -> None:
    """One example would change the words of another, whichever their lengths are when the module is tried."""
    module = nn.Sequential(nn.Embedding(5, 4, max_norm=100.0), nn.Flatten(), nn.Linear(12, CLASSES))
    with pytest.raises(ValueError, match=r"writes into its parameter '0.weight' as it runs"):
        outputs(module, np.zeros((2, 3), np.int32))


def test_outputs_that_are_no_numbers() -> None:
    class Signs(Functional):
        def forward(self, inputs: Any) -> Any:
            return self.linear(inputs) > 0

    with pytest.raises(ValueError, match=r"one float32 tensor \[2, …\], found \[2, 3, torch.bool\]"):
        outputs(Signs(), normal(2, 6))
