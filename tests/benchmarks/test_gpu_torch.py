"""PyTorch's rows of the benchmark on a GPU: hush's networks, and the same round whichever way it is made."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from hush.models import build

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import gpu  # noqa: E402
import gpu_torch  # noqa: E402


@pytest.mark.parametrize("model", gpu_torch.NETWORKS)
def test_networks_have_the_weights_of_ours(model):
    """As many arrays, with the same sizes in the same order."""
    shape = (32, 32, 3)
    ours = jax.eval_shape(lambda key: build(model, shape, gpu_torch.CLASSES, key), jax.random.key(0))
    theirs = [value.numel() for value in gpu_torch.NETWORKS[model](shape).parameters()]
    assert sorted(theirs) == sorted(leaf.size for leaf in jax.tree.leaves(ours))


def test_a_loop_and_a_map_make_the_same_round(monkeypatch):
    """Clients take the same batches either way; steps by hand, in float32."""
    made = [gpu_torch.Work("lenet5", (16, 16, 1), clients=3, steps=2, batch=4, half=False) for _ in range(2)]
    monkeypatch.setattr(torch, "randint", lambda most, shape, device: torch.arange(shape[-1]).expand(shape))
    looped, mapped = (gpu_torch.WAYS[way](work)() for way, work in zip(("loop", "vmap"), made, strict=True))
    before = list(made[0].module.parameters())
    assert max(float((one - two).detach().abs().max()) for one, two in zip(looped, before, strict=True)) > 1e-3
    for one, two in zip(looped, mapped, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), two.detach().numpy(), atol=1e-5)


def test_rows_have_names_of_their_own_and_ways_that_there_are():
    assert len({row.name for row in gpu.ROWS}) == len(gpu.ROWS)
    assert {row.way for row in gpu.ROWS} == {"", *gpu_torch.WAYS}


def test_a_row_of_pytorch_is_measured():
    row = next(row for row in gpu.ROWS if row.way == "vmap" and row.model == "mlp")
    found = gpu.measured(gpu.quick(row), batch=2)
    assert found["rate"] > 0
    assert found["at_once"] == 4
