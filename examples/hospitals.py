"""From a point estimate to credible intervals: ten hospitals with different patients, one posterior.

    python examples/hospitals.py        # under a minute; writes runs/hospitals/*.png; needs the extras report and bayes

Who will believe a diagnosis at 99 %? FedAvg's model is surer than it is right. FA-LD's samples, averaged, are not.
"""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_breast_cancer

import hush
from hush.report.style import write_png

OUT = Path("runs/hospitals")


def hospitals(patients: int = 300) -> tuple:
    """Tumours over ten hospitals by their size, so that none sees what another sees; the rest is for testing."""
    data = load_breast_cancer()
    x = (data.data - data.data.mean(0)) / data.data.std(0)
    order = np.random.default_rng(0).permutation(len(x))
    seen, held_out = order[:patients], order[patients:]
    size = np.argsort(np.argsort(x[seen, 0]))
    model = (
        lambda key: {"weight": jnp.zeros(x.shape[1]), "bias": jnp.zeros(())},
        lambda params, inputs: inputs @ params["weight"] + params["bias"],
    )
    test = (x[held_out], data.target[held_out])
    problem = hush.tasks.arrays(
        x[seen], data.target[seen], size * 10 // patients, model=model, test=test, kind="binary"
    )
    return problem, data.feature_names


def main() -> None:
    """A point estimate, a posterior, whether to trust it, and what it says."""
    problem, features = hospitals()
    OUT.mkdir(parents=True, exist_ok=True)

    point = hush.run(hush.fedavg(steps=5, lr=0.3), problem, rounds=3000, evaluate_every=1000)
    sampler = hush.fa_ld(steps=5, lr=1e-3, prior=1.0)
    bayes = hush.run(sampler, problem, rounds=12_000, repetitions=4, sample_every=20, warm_up=2000, evaluate_every=4000)
    print(bayes.posterior.worst())  # R-hat near 1? enough effective samples?

    scores = ["accuracy", "brier", "nll", "ece"]
    print("FedAvg   ", point.calibration()[scores].mean().round(3).to_dict())
    print("posterior", bayes.calibration().groupby("prediction")[scores].mean().round(3).to_dict("index"))
    write_png(bayes.reliability({"FedAvg": point}), OUT / "reliability.png")

    reference = hush.posterior.reference_posterior(problem, prior=1.0)
    intervals, truth = bayes.posterior.intervals(), reference.intervals()
    strongest = (intervals["mean"].abs() / intervals["sd"]).nlargest(6).index
    for name in strongest:
        feature = features[int(name[7:-1])] if name.startswith("weight") else "bias"
        mine, nuts = ((table["low"][name], table["high"][name]) for table in (intervals, truth))
        print(f"{feature:24} 90 % in [{mine[0]:+.2f}, {mine[1]:+.2f}]   NUTS [{nuts[0]:+.2f}, {nuts[1]:+.2f}]")
    write_png(bayes.density(list(strongest), reference), OUT / "density.png")


if __name__ == "__main__":
    main()
