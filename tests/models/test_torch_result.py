"""What a run gives back of a PyTorch module: the module itself, and its state_dict as a file."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='PyTorch is an extra: pip install "hush[torch]"')

from torch import nn  # noqa: E402

import hush  # noqa: E402

TOKENS = np.random.default_rng(0).integers(0, 5, (12, 3))


def module() -> Any:
    return nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Dropout(0.5).eval(), nn.Linear(12, 2))


@pytest.fixture(scope="module")
def result() -> Any:
    """Tokens learned from in batches, so that repetitions differ."""
    torch.manual_seed(0)
    problem = hush.tasks.arrays(TOKENS, TOKENS[:, 0] % 2, np.arange(12) % 3, model=module())
    return hush.run(hush.fedavg(steps=2, lr=1.0, batch=2), problem, 2, repetitions=2)


def test_saved_for_torch(result: Any, tmp_path: Path) -> None:
    for index in (0, 1):
        result.save_torch(tmp_path / f"{index}.pt", index)
    result.save_torch(str(tmp_path / "first.pt"))
    found = {path.stem: torch.load(path) for path in tmp_path.iterdir()}
    assert all(torch.equal(value, found["0"][name]) for name, value in found["first"].items())
    assert not torch.equal(found["0"]["0.weight"], found["1"]["0.weight"])
    for index in (0, 1):
        fresh = module()
        fresh.load_state_dict(found[str(index)])
        inputs = torch.from_numpy(TOKENS)
        assert torch.equal(fresh(inputs), result.model(index)(inputs))
        flat = [found[str(index)][name].ravel() for name in ("0.weight", "3.bias", "3.weight")]
        np.testing.assert_array_equal(torch.cat(flat).numpy(), result.vector[index])


def test_other_models_have_nothing_to_save_for_torch(result: Any, unequal: Any, tmp_path: Path) -> None:
    other = dataclasses.replace(result, problem=unequal, vector=np.zeros((1, 18), np.float32))
    with pytest.raises(
        ValueError, match=r"only a torch.nn.Module has a state_dict.*found a model that is a Sequential"
    ):
        other.save_torch(tmp_path / "none.pt")
    assert not list(tmp_path.iterdir())
