"""A made-up answer of a plan for the tests beside this file."""

from typing import Any

import numpy as np
import pandas as pd

from hush.report.plan_page import PlanFacts

CODINGS = ("none", "1/64", "2/256", "4/256", "16/1024")
FAMILIES = ("DP-FedAvg", "private FedPAQ", "DP-FedProx", "DP-FTRL")
NAMES = ("private FedPAQ", "DP-FTRL", "private FedPAQ", "DP-FedProx", "DP-FedAvg")
WORDS = (
    "4 levels in blocks of 256, 10 steps of batch 32, 50 clients a round, lr 0.12 falling, clip 0.8",
    "16 levels in blocks of 1024, 5 steps of batch 32, 25 clients a round, lr 0.08, clip 0.6",
    "2 levels in blocks of 256, 10 steps of batch 64, 50 clients a round, lr 0.12, clip 0.7",
    "4 levels in blocks of 256, 20 steps of batch 32, 50 clients a round, lr 0.05, μ 0.01, clip 1.1",
    "no quantiser, 40 steps of batch 32, 100 clients a round, lr 0.03, clip 1.4",
)


def reached(quality: float, share: float) -> float:
    """How far a candidate is after a share of its rounds."""
    return 0.1 + quality * (1 - np.exp(-4 * share))


def trials(count: int = 60, seed: int = 0) -> pd.DataFrame:
    """A race in which the worse half is left behind at each look; the first five trials come to its end."""
    random = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    quality = np.sort(0.3 + 0.42 * random.beta(3, 2, count))[::-1]
    for trial in range(count):
        rounds = int(random.integers(40, 400))
        for number, share in enumerate((0.125, 0.25, 0.5, 1.0)):
            if trial >= max(count // 2 ** (number + (number == 3)), 5):
                break
            score = reached(quality[trial], share) + 0.012 * random.normal()
            rows.append(
                {
                    "trial": trial, "family": FAMILIES[trial % 4], "steps": 2 ** (trial % 6), "batch": 32,
                    "clients": 50, "coding": CODINGS[trial % 5], "variance": 0.4, "rounds": rounds,
                    "run": int(np.ceil(share * rounds)), "score": score, "repetitions": 1 + 4 * (share == 1),
                    "message_bits": 21_000.0, "client_bits": 9.1e5, "bits": 4.5e8, "noise": 1.4, "epsilon": 2.99,
                    "lr": 0.12, "server_lr": 1.0, "decay": 0.5, "clip": 0.8,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def best() -> pd.DataFrame:
    """Five finalists, three of which can hardly be told apart."""
    scores = np.array([0.8236, 0.8207, 0.8174, 0.8021, 0.7836])
    half = np.array([0.0051, 0.0063, 0.0048, 0.0071, 0.0040])
    return pd.DataFrame(
        {
            "rank": range(1, 6), "algorithm": NAMES, "settings": WORDS, "score": scores, "low": scores - half,
            "high": scores + half, "client_bits": [988_432.0, 951_200.0, 612_007.0, 988_432.0, 960_000.0],
            "bits": [494_216_000.0, 475_600_000.0, 306_003_500.0, 494_216_000.0, 480_000_000.0],
            "epsilon": [2.994, 2.999, 2.991, 2.997, 2.981], "rounds": [240, 410, 240, 180, 30],
            "energy": [np.nan] * 5, "seconds": [np.nan] * 5, "trial": range(5),
        }
    )  # fmt: skip


def front(name: str, seed: int = 1) -> pd.DataFrame:
    """Points that more of a budget makes better, with less and less to gain."""
    random = np.random.default_rng(seed)
    low, high, asked = {"bits": (3e4, 8e6, 1e6), "epsilon": (0.3, 20.0, 3.0)}[name]
    budgets = np.exp(random.uniform(np.log(low), np.log(high), 60))
    ceiling = 0.86 - 0.25 * (budgets / low) ** -0.45
    scores = ceiling - 0.1 * random.exponential(0.9, 60)
    labels = [f"{FAMILIES[number % 4]}, {CODINGS[number % 5]}" for number in range(60)]
    frame = pd.DataFrame({"budget": budgets, "score": scores, "label": labels})
    frame.loc[60] = {"budget": 0.99 * asked, "score": 0.8236, "label": "private FedPAQ, 4/256"}
    return frame.assign(low=frame["score"] - 0.006, high=frame["score"] + 0.006)


EFFECTS = pd.DataFrame(
    {
        "choice": ["quantiser", "local steps", "clipping bound", "clients a round", "batch", "decay of lr"],
        "effect": [0.112, 0.064, 0.041, 0.018, 0.006, -0.002],
        "comparisons": [44, 38, 29, 21, 17, 9],
        "best": ["4 levels in blocks of 256", "10", "0.8", "50", "32", "none"],
    }
)
RULES = pd.DataFrame(
    {
        "rule": [
            "The more clients in a round, the less noise each must add",
            "The best number of local steps grows with what a message costs",
            "Clip at the median length of an update",
            "Without a quantiser, error feedback changes nothing",
        ],
        "source": ["DP-FedAvg", "FedPAQ, Theorem 1", "clipping, Section 5", "error feedback"],
        "verdict": ["agrees", "agrees", "does not", "not tried"],
        "evidence": [
            "50 clients beat 10 by 3.1 points in 12 of 13 comparisons",
            "E = 2 without and E = 10 with a budget of 1 Mbit",
            "0.4 of the median was better by 1.2 points (95 % interval 0.5 to 1.9)",
            "no candidate had both",
        ],
    }
)
THEORY = pd.DataFrame(
    {"family": ["FedPAQ", "DP-FedAvg"], "tau": [0.62, -0.08], "n": [31, 22], "p": [0.00002, 0.61]},
)
PRIVACY = {
    "what is protected": "all the data of one client",
    "neighbouring data": "all the data of one client is added or removed",
    "who is trusted": "the server, which adds the noise; whoever sees the model afterwards is not",
    "mechanism": "Gaussian noise on the clipped sum, of clients sampled by coins",
    "composition": "over all rounds, whoever took part",
    "δ": "1e-05",
}
TOML = """\
[task]
name = "digits"
clients = 500

[cohort]
piece = "poisson"
rate = 0.1

[local]
piece = "sgd"
steps = 10
lr = 0.12
"""


def facts(**changes: Any) -> PlanFacts:
    """A whole answer, but for some changes."""
    given: dict[str, Any] = {
        "title": "Digits on 500 phones",
        "question": "500 clients, at most 1,000,000 bits each, ε = 3 at δ = 1e-05 (client, trusted server)",
        "minutes": 14.2,
        "trials_count": 60,
        "budgets": [
            ("bits of a client", "1 Mbit", "0.988 Mbit", "0.012 Mbit"),
            ("ε at δ = 1e-05", "3", "3.00", "0"),
        ],
        "best": best(),
        "settings_toml": TOML,
        "trials": trials(),
        "fronts": {"bits": front("bits"), "epsilon": front("epsilon", 2)},
        "asked": {"bits": 1e6, "epsilon": 3.0},
        "effects": EFFECTS,
        "rules": RULES,
        "theory": THEORY,
        "theory_says": ["FedPAQ's bound orders its candidates well; DP-FedAvg's is no better than chance."],
        "infeasible": [("fedavg(steps=1)", "1,000,000 bits of a client do not pay for one message of 5,088,320")],
        "notes": ["Candidates were tried on made-up data of the same shape, which is nobody's.", "The bits are exact."],
        "privacy": PRIVACY,
    }
    return PlanFacts(**(given | changes))
