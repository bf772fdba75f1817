"""What should I run, under these budgets of bits and ε: many settings simulated on data that is not private."""

from hush.plans.answer import Choice, Plan
from hush.plans.budgets import Budgets, Infeasible
from hush.plans.planning import plan
from hush.plans.tuning import Tuned, tune

__all__ = ["Budgets", "Choice", "Infeasible", "Plan", "Tuned", "plan", "tune"]
