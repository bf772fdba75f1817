"""Several processes, one run: real ones on this machine, held against a run in this process."""

import json
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_fails_on_one_process_ends_all_of_them_with_the_reason(tmp_path):
    """A callback, a full disk, a folder that is taken, another problem, and a process that ends by itself."""
    with Pack(tmp_path) as pack:
        pack.together(2, SCRIPT.with_name("hosts_failing.py"), tmp_path)
        codes = pack.codes()
        said = [json.loads((tmp_path / f"said-by-{process}.json").read_text()) for process in range(2)]
    assert codes == [0, 1], pack.said()  # process 0 has caught all that it was told
    assert said[0]["told"] == [0, 2]
    assert said[1]["told"] == []
    for each in said:
        assert each["callback"][0] == "CallbackFailed"
        assert "a callback that cannot count" in each["callback"][1]
        assert each["disk"][0] == "WriteFailed"
        assert "No space left on device" in each["disk"][1]
        assert each["fine"] == ["fine", 3]
        assert each["taken"][0] == "ValueError"
        assert "already holds a run" in each["taken"][1]
    assert said[0]["other"][0] == "HostLost"
    assert said[1]["other"][0] == "ValueError"
    for each in said:
        assert "process 1 was given another run than process 0: different are problem" in each["other"][1]
    assert said[0]["alone"][0] == "HostLost"
    assert "process 1 of 2 has ended" in said[0]["alone"][1]
