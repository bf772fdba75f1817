"""A bench whose scores are a formula, for tests of all that is built on a bench."""

import math

from hush.plans.bench import Bench, Measured

BEST = {"lr": 0.3, "clip": 1.0, "mu": 0.1, "server_lr": 1.0, "decay": 1e-3}


def score_of(candidate, point, repetition, rounds):
    """Highest at BEST, for 10 steps and the most clients; it grows with the rounds, and repetitions differ a little."""
    draft = candidate.draft
    apart = sum(math.log(point[name] / BEST[name]) ** 2 for name in point)
    far = abs(math.log(draft.steps / 10)) + 0.2 * math.log(100 / draft.clients)
    share = rounds / candidate.rounds
    return 0.9 - 0.02 * apart - 0.05 * far - 0.1 * (1 - share) + 0.001 * math.sin(100 * repetition)


class Clock:
    """Every look at it is half a second later: how long a search takes is then no matter of the machine."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 0.5
        return self.now


class MadeUp(Bench):
    """Measures nothing, and takes no time; it knows how often it was asked."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.runs = []

    def _run(self, candidate, wanted, rounds):
        self.runs.append((candidate.name, rounds))
        for point, number in wanted:
            key = (candidate.name, candidate.rounds, tuple(sorted(point.items())), number, rounds)
            found = score_of(candidate, point, number, rounds)
            self.known[key] = Measured(found, candidate.bits, candidate.bits * rounds, 1e-3, 1e-6)
            self.note(key, self.known[key])
