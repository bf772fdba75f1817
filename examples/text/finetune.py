"""A small language model, made on public text and fitted to text that stays where it is: all of it, or by LoRA.

    python examples/text/finetune.py        # under a minute

The text is what Python's own modules say of themselves: ten of them are public, twenty others are clients. Beside
every perplexity stands what was sent for it and, at last, what a window of text is hidden by: its ε.
"""

import math

import jax

import hush
from hush.core.evaluation import measures
from hush.models import lora

LENGTH, SIZES = 32, {"width": 32, "depth": 2, "heads": 4}
ROUNDS, EPSILON, DELTA = 10, 8.0, 1e-4


def pretrained(rounds: int = 10):
    """A transformer that has read the public modules."""
    public = hush.tasks.python_docs(10, model="gpt", model_options=SIZES, length=LENGTH)
    training = hush.fedavg(5, steps=20, batch=16, lr=1e-2, optimiser="adam")
    return hush.run(training, public, rounds=rounds, evaluate_every=rounds, progress=False).model()


def private_training(problem, rounds: int):
    """Each window's gradient clipped, and noise on every step: as much as ε asks for."""

    def made(noise: float):
        oracle = hush.local.ClippedPerExample(1.0, noise_multiplier=noise)
        adam, batches = hush.local.LocalOptimiser("adam"), hush.local.Fresh(128)
        local = hush.local.LocalSGD(lr=5e-3, steps=5, batches=batches, oracle=oracle, optimiser=adam)
        return hush.Algorithm(hush.cohort.Uniform(5), local)

    return made(hush.privacy.calibrate(made, problem, rounds, EPSILON, DELTA, unit="example"))


def main(rounds: int = ROUNDS) -> dict[str, float]:
    """The perplexity of each way, printed with what it cost."""
    base = pretrained(rounds)
    adapted, thin = (lora(base, rank, key=jax.random.key(1)) for rank in (4, 1))
    # The noise is on every number: fewer of them, less noise.
    clients = {"all weights": base, "LoRA": adapted, "LoRA, private": thin}
    before = hush.tasks.python_docs(20, start=10, model=base, length=LENGTH)
    found = {"as it came": math.exp(measures(before, before.init(jax.random.key(0)))["test_loss"])}
    print(f"{'as it came':14} perplexity {found['as it came']:5.2f}")
    for name, model in clients.items():
        problem = hush.tasks.python_docs(20, start=10, model=model, length=LENGTH)
        training = hush.fedavg(5, steps=10, batch=16, lr=5e-3, optimiser="adam")
        if "private" in name:
            training = private_training(problem, rounds)
        result = hush.run(training, problem, rounds=rounds, evaluate_every=rounds, progress=False, delta=DELTA)
        last = result.records.iloc[-1]
        found[name] = last["perplexity"]
        spent = f"  ε = {last['epsilon']:.2f} for a window" if "epsilon" in last else ""
        sent = f"{result.status['dimension']:6,} numbers, {last['uplink_bits'] / 1e6:5.1f} Mbit sent"
        print(f"{name:14} perplexity {found[name]:5.2f}  {sent}{spent}")
    return found


if __name__ == "__main__":
    main()
