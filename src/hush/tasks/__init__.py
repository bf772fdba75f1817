"""What is to be learned, by whom: data sets, partitions, models and analytic problems."""

from collections.abc import Callable

from hush.tasks.analytic import linear_regression, logistic_regression, quadratic
from hush.tasks.images import arrays, cifar10, digits, emnist_digits, fashion_mnist, mnist
from hush.tasks.problem import Supervised

# The tasks that a settings file can name.
TASKS: dict[str, Callable[..., Supervised]] = {
    "digits": digits,
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "emnist_digits": emnist_digits,
    "cifar10": cifar10,
    "linear_regression": linear_regression,
    "logistic_regression": logistic_regression,
}

__all__ = [
    "TASKS",
    "arrays",
    "cifar10",
    "digits",
    "emnist_digits",
    "fashion_mnist",
    "linear_regression",
    "logistic_regression",
    "mnist",
    "quadratic",
]
