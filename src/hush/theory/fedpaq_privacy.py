"""What local privacy costs FedPAQ: paper fedpaq-dp, eqs 13 to 16, eq 51 and the last term of Theorem 1 (eq 18).

`privacy_term` is ς²/η², the `privacy` that a `fedpaq.Setting` takes. The unit is one example of a client, replaced.

- Sensitivity. Eq 51 is eq 16 with Δ = 4ηEG, which is nowhere derived. With per-example clipping to C, two runs with
  the same draws take the same steps until a batch holds the example; that one differs by 2ηC/b, every later one by at
  most 2ηC: Δ = 2ηC(E − 1 + 1/b), whether later batches hold it again or not, if none holds it twice. Never above 2ηEC.
- Noise. Eq 13 is proved for ε ≤ 1, eq 15 needs ε/(2γ) ≤ 1.256; `epsilon_of_equation_16` says what eq 16 really gives.
- The last constant. Eq 16 makes ς² = 8γ²Δ² ln(1.25γ/δ)/ε², with γ = Eb/|D| and Δ = 2ηEC so 32 E⁴η²C²b² ln(…)/(|D|²ε²);
  the noise of M clients through the compressor adds (1 + q)dς²/M a round, which is D5 E⁴η² in eq 26; 16/µ² D5 is then
  512/µ² · dC²b²(1 + q) ln(…)/(M|D|²ε²), before E³/(T + γ0). With Lemma 1's 2(1 + q)dς²/M it were 1024/µ², and the
  paper's Δ makes it 4096/µ², whose 1/µ² is lost in print.
"""

from dataclasses import replace
from math import exp, log1p
from typing import NamedTuple

from hush.core.check import known, natural, positive
from hush.local import output_sensitivity
from hush.privacy import Subset, gaussian_noise, noise_multiplier_for
from hush.privacy.printed import bought, equation_16_noise
from hush.theory.fedpaq import Setting

CASES = ("distinct", "any", "scalar_glm")
RECORDS = 10**6  # the accountant wants whole numbers of records for a rate


def sensitivity(
    lr: float,
    bound: float,
    steps: int,
    batch: int,
    as_printed: bool = False,
    *,
    case: str = "distinct",
    uses: int = 1,
    smoothness: float | None = None,
) -> float:
    """How far one example, replaced, moves a client's update of E steps with batches of b gradients clipped to C.

    distinct     2ηC(E − 1 + 1/b): no batch holds an example twice (shuffled passes, a subset)
    any          2ηEC: batches drawn with replacement too
    scalar_glm   2ηC/b for each of the example's `uses`: the loss is a convex function of one number a·x, and η at most
                 2/L. Clipping leaves such a loss convex and no steeper, so later steps never spread two runs further.
                 Softmax of several classes is none.

    >>> sensitivity(0.1, 1.0, steps=10, batch=20), sensitivity(0.1, 1.0, steps=10, batch=20, as_printed=True)
    (1.81, 4.0)
    """
    positive("lr", lr)
    positive("bound", bound)
    natural("steps", steps)
    natural("batch", batch)
    known("case", case, CASES)
    natural("uses", uses, 1, steps)
    if as_printed:
        return 4 * lr * steps * bound
    if case != "scalar_glm":
        return float(output_sensitivity(lr, bound, steps, 1 / batch if case == "distinct" else 1.0))
    if smoothness is None or not lr <= 2 / smoothness:
        raise ValueError(f"scalar_glm needs lr of at most 2/smoothness, found lr {lr!r} and smoothness {smoothness!r}")
    return float(uses * output_sensitivity(lr, bound, 1, 1 / batch))


def least_multiplier(epsilon: float, delta: float, rate: float = 1.0, rounds: int = 1) -> float:
    """The least noise, in sensitivities, for (ε, δ) over so many releases, each of a fresh subset without replacement.

    One release: a Gaussian that is (ε₀, δ/γ) private by the analytic formula, with e^ε₀ − 1 = (e^ε − 1)/γ. Several: the
    smaller of what Rényi accounting asks with the subsets and what is exact without them, √rounds times one release.

    >>> round(least_multiplier(1.0, 1e-4, rate=0.2), 3), round(least_multiplier(1.0, 1e-4, rounds=100), 2)
    (1.386, 31.86)
    """
    _privacy(epsilon, delta, rate)
    natural("rounds", rounds)
    if rounds == 1:
        return gaussian_noise(log1p((exp(epsilon) - 1) / rate), delta / rate)
    sampling = Subset(max(1, round(rate * RECORDS)), RECORDS)
    return noise_multiplier_for(epsilon, delta, rounds, "replace", sampling)


def printed_multiplier(epsilon: float, delta: float, rate: float) -> float:
    """Eq 16: √(2 ln(1.25γ/δ)) · 2γ/ε sensitivities of noise."""
    _privacy(epsilon, delta, rate)
    return equation_16_noise(epsilon, delta, rate)


def epsilon_of_equation_16(epsilon: float, delta: float, rate: float) -> float:
    """The ε that one release with eq 16's noise really has at this δ, if Δ is the sensitivity.

    >>> round(epsilon_of_equation_16(1.0, 1e-4, 0.1), 2), round(epsilon_of_equation_16(2.0, 1e-4, 0.1), 1)
    (2.25, 8.7)
    """
    _privacy(epsilon, delta, rate)
    return bought(epsilon, delta, Subset(max(1, round(rate * RECORDS)), RECORDS)).per_round


def privacy_term(
    epsilon: float,
    delta: float,
    rate: float,
    bound: float,
    steps: int,
    batch: int,
    rounds: int = 1,
    as_printed: bool = False,
    *,
    case: str = "distinct",
    noise_multiplier: float | None = None,
) -> float:
    """ς²/η²: the variance of each coordinate's noise over the squared step size, for `fedpaq.Setting.privacy`.

    As printed it is eq 51, and (ε, δ) is a round's. Corrected, (ε, δ) is that of all `rounds` a client takes part in
    (1: of each round, as the paper counts), with the least noise for it unless a `noise_multiplier` says how much.
    `rate` is γ = Eb/|D|. For a scalar GLM the sensitivity depends on η: use `sensitivity` and a multiplier instead.
    """
    known("case", case, ("distinct", "any"))
    reach = sensitivity(1.0, bound, steps, batch, as_printed, case=case)
    if as_printed:
        if rounds != 1 or noise_multiplier is not None:
            raise ValueError("as printed, (ε, δ) is one round's and eq 16 says the noise")
        return (printed_multiplier(epsilon, delta, rate) * reach) ** 2
    if noise_multiplier is None:
        noise_multiplier = least_multiplier(epsilon, delta, rate, rounds)
    positive("noise_multiplier", noise_multiplier)
    return (noise_multiplier * reach) ** 2


def with_privacy(
    setting: Setting, epsilon: float, delta: float, bound: float, rounds: int = 1, as_printed: bool = False
) -> Setting:
    """The same setting with the noise for (ε, δ): E, b and γ = Eb/|D| are the setting's own."""
    if setting.batch is None or setting.examples is None:
        raise ValueError(f"privacy needs a batch and how many examples a client holds, found {setting}")
    rate = setting.steps * setting.batch / setting.examples
    term = privacy_term(epsilon, delta, rate, bound, setting.steps, setting.batch, rounds, as_printed)
    return replace(setting, privacy=term)


class Perturbation(NamedTuple):
    """The variance of each coordinate of an update that noise adds, by where it is added, at the same ε."""

    output: float  # once, to the update
    step: float  # to every local step's gradient


def perturbation(
    lr: float,
    bound: float,
    steps: int,
    batch: int,
    noise_multiplier: float = 1.0,
    *,
    uses: int = 1,
    case: str = "distinct",
    smoothness: float | None = None,
) -> Perturbation:
    """Output against step perturbation: z²Δ², and E times η²σ² with σ = z√u · 2C/b, an example being in u of E batches.

    u releases of multiplier z√u are as private as one of z; a batch that does not hold the example tells nothing more
    of it. Steps that spread nothing carry a step's noise on undiminished at most. The ratio output/step is
    ((E − 1)b + 1)²/(Eu) with the general sensitivity: noise at the steps is never worse, and equal for E = 1 and where
    b = 1 and u = E. For a scalar GLM it is u/E, and noise on the output is never worse.
    """
    positive("noise_multiplier", noise_multiplier)
    reach = sensitivity(lr, bound, steps, batch, case=case, uses=uses, smoothness=smoothness)
    whole_update = (noise_multiplier * reach) ** 2
    one_step = sensitivity(lr, bound, 1, batch)
    return Perturbation(whole_update, steps * uses * (noise_multiplier * one_step) ** 2)


def _privacy(epsilon: float, delta: float, rate: float) -> None:
    positive("epsilon", epsilon)
    if not 0 < rate <= 1:
        raise ValueError(f"rate must be above 0 and at most 1, found {rate!r}")
    if not 0 < delta < rate:
        raise ValueError(f"delta must be above 0 and below the rate {rate!r}, found {delta!r}")
