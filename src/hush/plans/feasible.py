"""Whether anything fits the budgets at all, before the search begins; and if not, what the least would be."""

from collections.abc import Mapping

from hush.plans.budgets import Infeasible
from hush.plans.candidate import admitted
from hush.plans.families import Family
from hush.plans.menus import options_of
from hush.plans.scene import Scene

SHORTEST = 64.0  # bits: a scale and next to nothing else


def check_feasible(scene: Scene, families: Mapping[str, Family]) -> None:
    """Refuse budgets under which no candidate makes one round, by the one that comes nearest."""
    refused: list[Infeasible] = []
    for family in families.values():
        options = options_of(scene, family)
        # The fewest clients and the least work: whatever is cheapest of the rest is among these.
        least = {name: values[0] for name, values in options.items()}
        for coding in options.get("coding", ("none",)):
            draft = family(scene, lambda name, _: (least | {"coding": coding})[name])  # noqa: B023
            known = True
            try:
                known = draft.length_known(scene)
                admitted(scene, draft, SHORTEST)  # messages of unknown length may be short enough
            except Infeasible as error:
                if known:  # else the least is known to nobody
                    refused.append(error)
            else:
                return
    raise ValueError(f"nothing fits these budgets: {min(refused, key=lambda error: error.least)}")
