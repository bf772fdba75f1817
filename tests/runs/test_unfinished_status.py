"""A run that was killed said of itself what was so at its beginning: nobody may read an ε of 0 from that."""

import json

import pytest

import hush
from hush.report.page import write_report
from hush.store.files import STATUS
from hush.store.reading import load_status


@pytest.mark.parametrize("noise", [1.0, None])
def test_nothing_is_promised_of_a_run_that_has_not_ended(noise, quadratic, tmp_path, monkeypatch, unpainted):
    """As the folder stands between the first status that is written and the last."""
    algorithm = (
        hush.fedavg(3, steps=2, lr=0.05)
        if noise is None
        else hush.dp_fedavg(3, 6, steps=2, lr=0.05, clip=1.0, noise_multiplier=noise)
    )
    first = []
    hush.run(
        algorithm,
        quadratic,
        6,
        evaluate_every=2,
        progress=False,
        folder=tmp_path,
        on_evaluate=lambda told: first.append(STATUS.path(tmp_path).read_text()),
    )
    assert load_status(tmp_path)["status"] == "finished"
    at_first = json.loads(first[0])
    assert at_first["status"] == "running"
    assert noise is None or at_first["privacy"]["epsilon"] == 0  # which is what nobody may read
    STATUS.path(tmp_path).write_text(first[0])
    found = load_status(tmp_path)
    assert found["round"] == 6
    assert found["privacy"]["guarantee"] == "none"
    assert "epsilon" not in found["privacy"]
    assert "after 0 rounds" not in write_report(tmp_path).read_text()
