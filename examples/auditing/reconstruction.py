"""What does a server see of your data? Pictures made of single messages, with and without privacy.

    python examples/auditing/reconstruction.py        # a minute; writes PNG files in runs/reconstruction

Eight clients with one digit each send one message each. Whoever sees a message of FedAvg sees the digit; of a private
message, noise. The ε is of one message, against who sees it.
"""

from pathlib import Path

import hush
from hush.audits import compare_reconstructions

OUT = Path("runs/reconstruction")


def main() -> None:
    """One picture of a linear model, by a formula, and one of a small network, by optimisation."""
    private = {"clip": 1.0, "epsilon": 8.0, "delta": 1e-5, "participations": 1, "examples": 1}
    algorithms = {
        "distributed SGD": hush.distributed_sgd(),
        "FedAvg, one step": hush.fedavg(steps=1, lr=0.1),
        "private FedPAQ": hush.private_fedpaq(steps=1, lr=0.1, batch=None, **private),
        "DP-FedAvg, noise of clients": hush.dp_fedavg(
            1, 20, clip=1.0, noise_multiplier=2.0, draw="uniform", noise="client", steps=1, lr=0.1
        ),
        "DP-FedAvg, noise of the server": hush.dp_fedavg(10, 20, clip=1.0, noise_multiplier=1.0, steps=1, lr=0.1),
    }
    linear = hush.tasks.digits(clients=20)
    found = compare_reconstructions(algorithms, linear, client=range(8))
    print(found.save(OUT / "linear.png"))
    print(found.table.groupby("algorithm", sort=False)[["error", "psnr", "ssim"]].mean().round(2).to_string())

    network = hush.tasks.digits(clients=20, model="mlp", model_options={"hidden": 64})
    several = compare_reconstructions(
        {
            "FedAvg, one step": algorithms["FedAvg, one step"],
            "FedAvg, five steps": hush.fedavg(steps=5, lr=0.1),
            "private FedPAQ": algorithms["private FedPAQ"],
        },
        network,
        client=(1, 2),
        examples=4,
        progress=print,
    )
    print(several.save(OUT / "network.png"))


if __name__ == "__main__":
    main()
