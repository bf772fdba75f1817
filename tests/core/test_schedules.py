"""Step sizes against their formulas."""

import numpy as np
import optax
import pytest

from hush.core.schedules import SCHEDULES, InverseTime, Optax, StronglyConvex, rate


def test_formulas():
    counts = np.array([0, 1, 10, 1000])
    np.testing.assert_allclose([rate(InverseTime(0.1, 100.0), k) for k in counts], 0.1 / (1 + counts / 100), rtol=1e-6)
    found = [rate(StronglyConvex(2.0, 40.0), k) for k in counts]
    np.testing.assert_allclose(found, 4 / (2 * (counts + 40)), rtol=1e-6)
    assert float(rate(0.3, 7)) == pytest.approx(0.3)
    assert len(SCHEDULES) == 3


def test_any_optax_schedule_by_name_or_as_it_is():
    named = Optax("cosine_decay_schedule", {"init_value": 0.5, "decay_steps": 10})
    direct = optax.cosine_decay_schedule(0.5, 10)
    for count in (0, 3, 10):
        assert float(rate(named, count)) == pytest.approx(float(direct(count)))
        assert float(rate(direct, count)) == pytest.approx(float(direct(count)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InverseTime(0.0), "initial must be a positive number, found 0.0"),
        (lambda: InverseTime(0.1, -1.0), "scale must be a positive number"),
        (lambda: StronglyConvex(1.0, 0.0), "offset must be a positive number"),
        (lambda: Optax("cosine_decay"), "unknown optax schedule 'cosine_decay'; did you mean 'cosine_decay_schedule'"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
