"""A table with names in it: hospitals in one column, diagnoses in another; who is served how well comes back by name.

    python examples/own_data.py        # seconds; writes runs/own_data/patients.csv and a run folder beside it

The file can be run without Python, too: `hush run` takes a [task] with name = "csv", path, target and client.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import hush

OUT = Path("runs/own_data")
HOSPITALS = np.array(["Aarau", "Basel", "Chur", "Davos", "Genf"])


def patients() -> pd.DataFrame:
    """Tumours with their diagnosis, over five hospitals by size: none sees what another sees."""
    data = load_breast_cancer(as_frame=True)
    frame = data.data[["mean radius", "mean texture", "mean smoothness", "mean concavity"]]
    rank = frame["mean radius"].rank(method="first").to_numpy(int) - 1
    return frame.assign(
        age_group=np.array(["under 50", "50 to 70", "over 70"])[np.random.default_rng(0).integers(0, 3, len(frame))],
        diagnosis=np.array(data.target_names)[data.target],
        hospital=HOSPITALS[rank * len(HOSPITALS) // len(frame)],
    )


def main() -> None:
    """From a CSV file to a table of hospitals."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "patients.csv"
    patients().to_csv(path, index=False)

    # Means and deviations are of all hospitals' patients: fine for a simulation, not for a promise of privacy.
    problem = hush.tasks.csv(str(path), target="diagnosis", client="hospital", standardise=True)
    print("classes ", problem.classes)
    print("features", problem.features)

    result = hush.run(
        hush.fedavg(clients=3, steps=10, lr=0.1, batch=16),
        problem,
        rounds=30,
        evaluate_every=10,
        evaluate_clients=True,
        folder=OUT / "run",
        replace=True,
    )
    print(
        result.clients[["client", "client_name", "rounds", "uplink_bits", "accuracy"]].round(3).to_string(index=False)
    )
    print(f"the same again: hush run {OUT / 'run' / 'settings.toml'} --out {OUT / 'again'}")


if __name__ == "__main__":
    main()
