"""Every piece there is has a proof, or is known to have none; and no piece has the proof of its parent."""

import pytest

from hush.channel import CHANNELS, FADINGS, POWER_RULES
from hush.cohort import COHORTS
from hush.local import BATCHES, DIRECTIONS, LOCAL_RULES, ORACLES
from hush.privacy import NoGuarantee
from hush.privacy.air import by_fading, by_power_rule
from hush.privacy.clients import by_channel
from hush.privacy.cohorts import by_cohort
from hush.privacy.examples import by_rule
from hush.privacy.proofs import Proofs
from hush.privacy.stages import by_stage
from hush.privacy.streams import by_server
from hush.privacy.training import by_batches, by_direction, by_oracle, by_rows, by_strength
from hush.server import SERVER_RULES
from hush.uplink import STAGES

# Each table of proofs, the slot's table of pieces, and the pieces that are refused.
TABLES = {
    "stages": (by_stage, STAGES, set()),
    "channels": (by_channel, CHANNELS, set()),
    "cohorts": (by_cohort, COHORTS, set()),
    "power rules": (by_power_rule, POWER_RULES, {"least_squares"}),
    "fadings": (
        by_fading,
        FADINGS,
        {"gaussian_real", "rayleigh", "rician", "correlated", "path_loss", "estimated"},
    ),
    "local rules": (by_rule, LOCAL_RULES, set()),
    "oracles": (by_oracle, ORACLES, {"mean"}),
    "batches": (by_batches, BATCHES, {"replacement"}),
    "rows of a round": (by_rows, BATCHES, set()),
    "directions": (by_direction, DIRECTIONS, {"gradient_correction"}),
    "directions that shrink": (
        by_strength,
        DIRECTIONS,
        {"control_variate", "gradient_correction", "linear_penalty", "langevin"},
    ),
    "server rules": (by_server, SERVER_RULES, set()),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_piece_is_judged(name):
    proofs, pieces, refused = TABLES[name]
    assert len(pieces) >= 2
    ours = {kind for kind in proofs.proved if kind.__module__.startswith("hush.")}  # other tests may register theirs
    assert ours == {kind for called, kind in pieces.items() if called not in refused}
    assert set(proofs.refused) == {pieces[called] for called in refused}


def blank(kind):
    """A piece of this type with no settings: enough to be looked up."""
    return object.__new__(kind)


@pytest.mark.parametrize("name", TABLES)
def test_no_proof_is_inherited(name):
    proofs, pieces, _ = TABLES[name]
    for kind in pieces.values():
        heir = blank(type(f"Heir{kind.__name__}", (kind,), {}))
        with pytest.raises(NoGuarantee, match=f"no proof is known for the {proofs.kind} Heir{kind.__name__}"):
            proofs(heir)


@pytest.mark.parametrize("name", TABLES)
def test_a_refusal_says_why(name):
    proofs, _, _ = TABLES[name]
    for kind, reason in proofs.refused.items():
        with pytest.raises(NoGuarantee) as told:
            proofs(blank(kind))
        assert str(told.value) == f"the {proofs.kind} {kind.__name__} {reason}"


def test_what_is_proved_is_said_once():
    table: Proofs[int] = Proofs("word")
    table.register(str)(len)
    assert table("four") == 4
    with pytest.raises(ValueError, match="what is proved of the word str is said already"):
        table.register(str)(len)
    with pytest.raises(ValueError, match="what is proved of the word str is said already"):
        table.refuse("is a word too many", str)
