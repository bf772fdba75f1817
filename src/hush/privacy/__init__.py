"""What privacy costs: releases in, ε out, and the noise or the rounds for an ε the other way round."""

from hush.privacy.accounting import ACCOUNTANTS, Spent, delta_at, epsilon_spent, spent
from hush.privacy.calibration import gaussian_noise, noise_multiplier_for, rounds_within
from hush.privacy.describe import calibrate, describe
from hush.privacy.guarantee import TRUST, UNITS, Description, Guarantee
from hush.privacy.releases import LAWS, RELATIONS, NoGuarantee, Poisson, Release, Sampling, Subset, Summed, Unsampled
from hush.privacy.selection import Trials, behind_server, noise_growth, selected
from hush.privacy.who import EqualClients

__all__ = [
    "ACCOUNTANTS",
    "LAWS",
    "RELATIONS",
    "TRUST",
    "UNITS",
    "Description",
    "EqualClients",
    "Guarantee",
    "NoGuarantee",
    "Poisson",
    "Release",
    "Sampling",
    "Spent",
    "Subset",
    "Summed",
    "Trials",
    "Unsampled",
    "behind_server",
    "calibrate",
    "delta_at",
    "describe",
    "epsilon_spent",
    "gaussian_noise",
    "noise_growth",
    "noise_multiplier_for",
    "rounds_within",
    "selected",
    "spent",
]
