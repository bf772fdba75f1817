"""Text tasks: windows of tokens, of which every next one is to be predicted."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import integer, known, shown
from hush.core.rehearsal import shapes
from hush.data import partitions
from hush.data.texts import docstrings, read_texts
from hush.data.windows import NOTHING, coder, cut, given, pair, shares
from hush.models import TEXT_MODELS
from hush.models.products import FLOAT32
from hush.models.wrap import wrap
from hush.tasks.measures import next_token
from hush.tasks.problem import Recipe, Supervised, supervised

Array = np.ndarray[Any, Any]

LENGTH = 64  # of a window, if nothing is said
Wanted = tuple[Any, dict[str, Any] | None, str]  # a model, its options, the precision of its products
HELD_OUT = 10  # of the documentation of Python every so many-th window is for testing


def tokens(
    sequences: Any = None,
    client_ids: Any = None,
    *,
    path: str | None = None,
    model: Any = "gru",
    model_options: dict[str, Any] | None = None,
    precision: str = FLOAT32,
    length: int | None = None,
    vocabulary: Any = None,
    padding: int | None = None,
    test: Any = None,
) -> Supervised:
    """Text over clients, of which a model predicts each next token.

    It is cut in windows of `length` + 1 tokens; each token is predicted from those before it in its window.

    `sequences` are windows of tokens [n, length + 1], integers, with the client of each in `client_ids`; or texts: a
    dictionary of each client's text, or list of texts, or a list of texts with the client of each. In their place,
    `path` names a folder with a .txt file for each client, or a .jsonl file with client and text in each line.

    `vocabulary` makes tokens of texts: the characters that there are, in a string; or a function of a text, or anything
    with `encode`, such as a tokeniser of Hugging Face. By itself it is the printable characters of ASCII, which tell
    nothing about anybody; `characters(texts)` finds all that are used. Token 0 is then any other character. Of
    `sequences` it is the number of tokens, and `padding` the one that fills a window at its end.

    A window of a text shares no token with another; what is short is filled up. What fills does not count. The loss of
    a window is the mean over its tokens, in nats, so that one example has one loss; the loss of a client is the mean
    over its windows. `test` is like `sequences` without clients, or a path: test_loss and accuracy are means over its
    tokens, each counted once, and perplexity is exp(test_loss).

    One example, which example-level privacy protects, is one window, and not all that somebody wrote: for that there is
    client-level privacy, with a client for each writer.

    `precision` is that of the model's products, "float32" or, on a GPU, "bfloat16": docs/speed.md.
    """
    settings = {name: value for name, value in locals().items() if value is not None}
    if (sequences is None) == (path is None) or (path is not None and client_ids is not None):
        raise ValueError("tokens takes sequences with their client_ids, a dictionary of texts, or a path, one of these")
    if path is not None:
        (sequences, client_ids), test = read_texts(path), None if test is None else read_texts(test)[0]
    texts, wanted = _texts(sequences, client_ids), (model, model_options, precision)
    if texts is None:
        return _of_sequences(sequences, client_ids, wanted, length, vocabulary, padding, test)
    if padding is not None:
        raise ValueError(f"padding goes with windows of tokens: texts are filled up by themselves, found {padding}")
    problem = _of_texts(*texts, wanted, length, vocabulary, test)
    again = path is not None and isinstance(model, str) and isinstance(vocabulary, str | None)
    return dataclasses.replace(problem, recipe=Recipe(name="tokens", **settings)) if again else problem


def python_docs(
    clients: int = 20,
    *,
    start: int = 0,
    model: Any = "gru",
    model_options: dict[str, Any] | None = None,
    precision: str = FLOAT32,
    length: int = LENGTH,
) -> Supervised:
    """Docstrings of Python's standard library, each module a client.

    Text that is always there: from the `start`-th of 40 modules on. Every tenth window is kept from all clients, for
    testing. Another version of Python has other text.
    """
    settings = {name: value for name, value in locals().items() if value is not None}
    integer("start", start, 0)
    texts, modules = docstrings(clients, start)
    encode, size = coder(None)
    windows, owners = cut(texts, modules, encode, length)
    test = np.arange(len(windows)) % HELD_OUT == HELD_OUT - 1
    problem = _problem(windows[~test], owners[~test], (model, model_options, precision), size, windows[test])
    recipe = Recipe(name="python_docs", **settings) if isinstance(model, str) else Recipe()
    return dataclasses.replace(problem, recipe=recipe)


def characters(texts: Any) -> str:
    """All characters that texts use, in order, as `vocabulary` takes them. Of private text, that is a release of it.

    >>> characters(["abba", "cab"])
    'abc'
    """
    found = _texts(texts, None if isinstance(texts, Mapping) else np.arange(len(texts)))
    if found is None:
        raise ValueError(f"characters are those of texts, found {shown(texts)}")
    return "".join(sorted(set().union(*found[0])))


def _texts(found: Any, client_ids: Any) -> tuple[list[str], list[Any]] | None:
    """Texts one by one with their clients; None where tokens were given."""
    if isinstance(found, Mapping):
        if client_ids is not None:
            raise ValueError("a dictionary names its clients itself, found client_ids beside it")
        return _of_clients(found)
    if isinstance(found, str):
        raise ValueError("one text alone has no clients: give a dictionary of each client's text, or a list of texts")
    if hasattr(found, "tolist") and np.asarray(found).dtype.kind in "UO":  # of NumPy, or a column of a table
        found = found.tolist()
    if isinstance(found, list | tuple) and found and all(isinstance(text, str) for text in found):
        ids = list(np.asarray([] if client_ids is None else client_ids))
        if len(ids) != len(found):
            raise ValueError(f"client_ids must name a client for each of {len(found)} texts, found {len(ids)}")
        return list(found), ids
    return None


def _of_clients(found: Mapping[Any, Any]) -> tuple[list[str], list[Any]]:
    each = {client: [said] if isinstance(said, str) else said for client, said in found.items()}
    for client, texts in each.items():
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"a dictionary must hold a text or a list of texts, found {shown(texts)} of {client!r}")
    if not each:
        raise ValueError("a dictionary of texts must have clients in it, found none")
    return [text for texts in each.values() for text in texts], [c for c, texts in each.items() for _ in texts]


def _of_texts(
    texts: list[str], owners: list[Any], wanted: Wanted, length: int | None, vocabulary: Any, test: Any
) -> Supervised:
    length = LENGTH if length is None else length
    integer("length", length)
    encode, size = coder(vocabulary)
    windows, clients = cut(texts, owners, encode, length)
    if missing := [owner for owner in dict.fromkeys(owners) if owner not in clients]:
        raise ValueError(f"a client needs a text of two tokens or more, found none of {shown(missing[0])}")
    held_out = None
    if test is not None:
        asked = _of_clients(test if isinstance(test, Mapping) else {"test": test})
        held_out = cut(*asked, encode, length)[0]
        if not len(held_out):
            raise ValueError("test must have a text of two tokens or more, found none")
    return _problem(windows, clients, wanted, size, held_out)


def _of_sequences(
    sequences: Any,
    client_ids: Any,
    wanted: Wanted,
    length: int | None,
    vocabulary: Any,
    padding: int | None,
    test: Any,
) -> Supervised:
    if padding is not None:
        integer("padding", padding, NOTHING)
    if vocabulary is not None:
        integer("vocabulary (the number of tokens, where they are given)", vocabulary)
    windows = given("sequences", sequences, padding)
    if length is not None and windows.shape[1] != length + 1:
        raise ValueError(f"sequences must be [n, length + 1], [n, {length + 1}], found {windows.shape}")
    held_out = None if test is None else given("test", test, padding)
    if held_out is not None and held_out.shape[1] != windows.shape[1]:
        raise ValueError(f"test must be [n, {windows.shape[1]}], as sequences are, found {held_out.shape}")
    return _problem(windows, client_ids, wanted, vocabulary, held_out)


def _problem(windows: Array, owners: Any, wanted: Wanted, size: int | None, test: Array | None) -> Supervised:
    """A problem of windows, NOTHING where they are filled up, the client of each and a model of `size` tokens."""
    largest = int(max(windows.max(), NOTHING if test is None else test.max()))
    size = largest + 1 if size is None else size
    if largest >= size:
        raise ValueError(f"tokens must be below {size:,}, the size of the vocabulary, found {largest:,}")
    parts, _ = partitions.by_client_id(owners)
    if (named := sum(map(len, parts))) != len(windows):
        raise ValueError(f"client_ids must name a client for each of {len(windows)} windows, found {named}")
    model, options, precision = wanted
    if isinstance(model, str):
        known("model of text", model, TEXT_MODELS)
    made, length = wrap(model, (windows.shape[1] - 1,), size, options, precision), windows.shape[1] - 1
    check_logits(made, length, size)
    problem = supervised(pair(windows), parts, made, next_token, test=None if test is None else pair(test))
    if test is None:
        return problem
    return dataclasses.replace(problem, test_importance=jnp.asarray(shares(test[:, 1:]), jnp.float32))


def check_logits(model: Any, length: int, size: int) -> None:
    """Refuse a model without a logit for each token at each place: it would be scored by those it has."""
    window = jax.ShapeDtypeStruct((2, length), jnp.int32)
    params = shapes("the model", model, "init", lambda: model.init(jax.random.key(0)))
    found = shapes("the model", model, f"apply on {length} tokens", model.apply, params, window)
    shape: tuple[int, ...] = getattr(found, "shape", ())
    if len(shape) != 3 or shape[:2] != (2, length) or shape[2] < size:
        said = list(shape[1:]) if shape else type(found).__name__
        raise ValueError(f"a model of text must answer a window by logits [{length}, {size}] or more, found {said}")
