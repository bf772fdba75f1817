"""Does the model remember what one client held? Secrets planted in clients' data, and asked for after training.

    python examples/auditing/exposure.py        # a minute; writes runs/exposure/exposure.png

Ten clients hold three random pictures with random labels each: 1,000 patterns of labels are as likely to have been it.
Where training remembers, the model finds the pattern that was held likelier than nearly all others; with privacy, it is
one among many, like those that nobody held.
"""

from pathlib import Path

import hush
from hush.audits import exposure

OUT = Path("runs/exposure")
ROUNDS = 100


def main() -> None:
    """Exposure of the same secrets by FedAvg and by private FedPAQ."""
    problem = hush.tasks.digits(clients=20, model="mlp", model_options={"hidden": 64})
    plain = exposure(hush.fedavg(steps=10, lr=0.3), problem, ROUNDS, progress=print)
    private = exposure(
        hush.private_fedpaq(
            steps=1,
            lr=0.3,
            batch=None,
            epsilon=2.0,
            delta=1e-5,
            participations=ROUNDS,
            examples=problem.population.smallest,
        ),
        problem,
        ROUNDS,
        progress=print,
    )
    print(plain, private, sep="\n")
    print(plain.save(OUT / "exposure.png", private))


if __name__ == "__main__":
    main()
