"""What is to be learned, by whom: data, a model and a loss made into a problem; and problems with a known answer."""

from collections.abc import Callable

from hush.core.problem import Problem
from hush.tasks.analytic import linear_regression, logistic_regression, quadratic
from hush.tasks.arrays import arrays
from hush.tasks.hugging_face import hugging_face
from hush.tasks.images import cifar10, digits, emnist_digits, fashion_mnist, mnist
from hush.tasks.leaf import leaf
from hush.tasks.packing import pack, pack_files
from hush.tasks.potentials import gaussian_posterior, gaussian_potentials, potentials
from hush.tasks.remote import remote
from hush.tasks.stored import stored
from hush.tasks.synthetic import synthetic
from hush.tasks.tables import csv, frame, parquet
from hush.tasks.tokens import characters, python_docs, tokens
from hush.tasks.torch_dataset import torch_dataset

# The tasks of one's own files that a settings file can name.
OF_FILES: dict[str, Callable[..., Problem]] = {"csv": csv, "parquet": parquet, "leaf": leaf, "stored": stored}

# The tasks that a settings file can name.
TASKS: dict[str, Callable[..., Problem]] = {
    "digits": digits,
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "emnist_digits": emnist_digits,
    "cifar10": cifar10,
    "synthetic": synthetic,
    "linear_regression": linear_regression,
    "logistic_regression": logistic_regression,
    "gaussian_posterior": gaussian_posterior,
    "tokens": tokens,
    "python_docs": python_docs,
    "remote": remote,
    **OF_FILES,
}

__all__ = [
    "OF_FILES",
    "TASKS",
    "arrays",
    "characters",
    "cifar10",
    "csv",
    "digits",
    "emnist_digits",
    "fashion_mnist",
    "frame",
    "gaussian_posterior",
    "gaussian_potentials",
    "hugging_face",
    "leaf",
    "linear_regression",
    "logistic_regression",
    "mnist",
    "pack",
    "pack_files",
    "parquet",
    "potentials",
    "python_docs",
    "quadratic",
    "remote",
    "stored",
    "synthetic",
    "tokens",
    "torch_dataset",
]
