"""Several processes, one run: real ones on this machine, held against a run in this process."""

from pathlib import Path

import hosts_cases
import numpy as np
import pytest
from pack import Pack

SCRIPT = Path(hosts_cases.__file__)


def compare(folder, name, processes):
    """Every process has what one process has: whole numbers and ε to the last bit, others up to rounding."""
    alone = hosts_cases.numbers(name, devices=min(processes, 2))
    for process in range(processes):
        found = np.load(folder / f"{name}-{process}.npz")
        assert set(found.files) == set(alone)
        for key, value in alone.items():
            if value.dtype.kind in "iub" or "epsilon" in key:
                np.testing.assert_array_equal(found[key], value, err_msg=key)
            else:
                scale = np.abs(value[np.isfinite(value)]).max(initial=0)
                np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5 * scale, err_msg=key)


def run_together(folder, names, processes, devices=1):
    with Pack(folder) as pack:
        pack.together(processes, SCRIPT, folder, ",".join(names), devices=devices)
        assert pack.codes() == [0] * processes, pack.said()
    for name in names:
        compare(folder, name, processes)


def test_two_processes_find_what_one_does(tmp_path):
    run_together(tmp_path, ["fedpaq"], 2)


@pytest.mark.slow
def test_two_processes_find_what_one_does_whatever_is_run(tmp_path):
    """Client state, padded cohorts, the air, samples, lanes that do and do not divide the devices, budgets of bits."""
    run_together(tmp_path, list(hosts_cases.CASES), 2)


@pytest.mark.slow
def test_four_processes_find_what_one_does(tmp_path):
    """Lanes over two of the four, and clients over the other two; and two devices for each of two processes."""
    run_together(tmp_path, ["scaffold", "langevin", "budget"], 4)
    run_together(tmp_path, ["scaffold", "sweep"], 2, devices=2)
