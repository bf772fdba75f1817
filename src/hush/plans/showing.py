"""How a plan is getting on: how many candidates were tried, and the best so far."""

from collections.abc import Callable

from hush.plans.search import Search
from hush.runs.progress import Stages


def told(stages: Stages) -> Callable[[Search], None]:
    """What shows how far a search has come; in plain lines, where there is a new best."""

    def show(search: Search) -> None:
        if search.arms:
            best = search.ranked()[0]
            words = f"{len(search.arms)} tried, best {abs(best.value):.4g}: {best.candidate.name}"
            stages.show(search.used, search.stage, words, f"{search.used:4.0f} s  ", best.value)

    return show
