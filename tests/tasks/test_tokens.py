"""Text tasks: windows that share no token, padding that counts for nothing, and a perplexity of all tokens."""

import json
import math
import runpy
import string
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.core.evaluation import measures, own_measures
from hush.data.texts import MODULES, docstrings
from hush.data.windows import NOTHING, coder, cut
from hush.settings import build
from hush.tasks.classes import class_counts

TEXTS = {
    "ada": "the analytical engine weaves",
    "bob": ["algebraical", "patterns, just as looms"],
    "cy": "weave flowers",
}
SMALL = {"model": "gru", "model_options": {"width": 4, "embedding": 3}}


def made(texts=None, **options):
    return hush.tasks.tokens(TEXTS if texts is None else texts, **SMALL | {"length": 8} | options)


def said(problem, row, characters):
    """The text of a window."""
    window = [*np.asarray(problem.train.x)[row, :1], *np.asarray(problem.train.y)[row]]
    return "".join(characters[token - 1] for token in window if token >= 0)


class TestWindows:
    def test_hold_every_text_once(self):
        characters = hush.tasks.characters(TEXTS)
        problem = made(vocabulary=characters)
        assert problem.train.x.dtype == problem.train.y.dtype == jnp.int32
        assert problem.train.x.shape[1] == problem.train.y.shape[1] == 8
        offsets, sizes = np.asarray(problem.offsets), np.asarray(problem.population.sizes)
        for client, texts in enumerate(TEXTS.values()):
            rows = np.asarray(problem.index)[offsets[client] : offsets[client] + sizes[client]]
            each = [texts] if isinstance(texts, str) else texts
            # A token alone at the end of a text has nothing to be predicted from.
            whole = [text[:-1] if len(text) % 9 == 1 else text for text in each]
            assert "".join(said(problem, row, characters) for row in rows) == "".join(whole)

    def test_share_no_token(self):
        """Counted off by a vocabulary that numbers all characters of a text."""
        windows, owners = cut(["x" * 50, "y" * 3], ["a", "b"], lambda text: range(len(text)), 9)
        assert windows[:5].ravel().tolist() == list(range(50))
        assert windows[5].tolist() == [0, 1, 2, *[NOTHING] * 7]
        assert owners.tolist() == ["a"] * 5 + ["b"]

    def test_targets_are_the_inputs_one_place_on(self):
        problem = made()
        x, y = np.asarray(problem.train.x), np.asarray(problem.train.y)
        counted = y[:, :-1] >= 0
        np.testing.assert_array_equal(x[:, 1:][counted], y[:, :-1][counted])
        assert (x[:, 1:][~counted] == 0).all()
        assert (y[:, 0] >= 0).all()

    def test_of_tokens_that_are_given(self):
        windows = np.array([[5, 1, 2, 3], [4, 1, 7, 7], [2, 2, 2, 7]])
        problem = hush.tasks.tokens(windows, [1, 0, 1], padding=7, **SMALL)
        np.testing.assert_array_equal(problem.train.x, [[5, 1, 2], [4, 1, 0], [2, 2, 2]])
        np.testing.assert_array_equal(problem.train.y, [[1, 2, 3], [1, -1, -1], [2, 2, -1]])
        assert problem.population.sizes.tolist() == [1, 2]
        assert problem.model.classes == 6
        assert hush.tasks.tokens(windows, [1, 0, 1], vocabulary=20, **SMALL).model.classes == 20


class TestVocabulary:
    def test_an_unknown_character_is_token_0(self):
        encode, size = coder("abc")
        assert (list(encode("cab–a")), size) == ([3, 1, 2, 0, 1], 4)
        assert made().model.classes == 101

    def test_texts_in_an_array_are_texts(self):
        one, other = (
            hush.tasks.tokens(texts, ["a", "b"], **SMALL) for texts in (["ab", "cde"], np.array(["ab", "cde"]))
        )
        np.testing.assert_array_equal(one.train.y, other.train.y)

    def test_tokenisers_of_several_kinds(self):
        """Duck-typed: with ids in an object, as a list, or as a plain function."""
        words = {word: place for place, word in enumerate(sorted({"a", "rose", "is"}))}
        number = lambda text: [words[word] for word in text.split()]  # noqa: E731
        hugging = SimpleNamespace(encode=lambda text: SimpleNamespace(ids=number(text)), get_vocab_size=lambda: 9)
        listed = SimpleNamespace(encode=number, vocab_size=7)
        texts = ["a rose is a rose", "is a rose"]
        sizes = []
        for vocabulary in (hugging, listed, number):
            problem = hush.tasks.tokens(texts, ["x", "y"], length=2, vocabulary=vocabulary, **SMALL)
            np.testing.assert_array_equal(problem.train.x, [[0, 2], [0, 2], [1, 0]])
            np.testing.assert_array_equal(problem.train.y, [[2, 1], [2, -1], [0, 2]])
            sizes.append(problem.model.classes)
        assert sizes == [9, 7, 3]


class TestMeasures:
    def test_perplexity_is_of_all_tokens_of_the_test(self):
        """Window by window and token by token; windows of a text are not equally long, so that weights matter."""
        problem = made(test=["weaves a text of flowers", "ab"])
        params = problem.init(jax.random.key(3))
        params = jax.tree.map(lambda leaf: 3 * leaf, params)
        answer = jax.jit(lambda x: problem.model.rebuild(params)(x))
        losses, means = [], []
        for x, y in zip(problem.test.x, np.asarray(problem.test.y), strict=True):
            logits = np.asarray(answer(x), np.float64)
            each = [np.log(np.exp(row).sum()) - row[token] for row, token in zip(logits, y, strict=True) if token >= 0]
            losses += each
            means.append(np.mean(each))
        found = jax.jit(lambda params: measures(problem, params))(params)
        found |= problem.derived(found)
        assert found["test_loss"] == pytest.approx(np.mean(losses), rel=1e-5)
        assert found["perplexity"] == pytest.approx(math.exp(np.mean(losses)), rel=1e-4)
        assert abs(np.mean(means) - np.mean(losses)) > 1e-3

    def test_what_fills_a_window_counts_for_nothing(self):
        problem = made()
        params, data = problem.init(jax.random.key(0)), problem.client(2)
        row = jnp.array([1])
        inputs, targets = data.examples(row)
        last = int(np.sum(np.asarray(targets) >= 0))
        assert 0 < last < 8
        losses = jax.jit(lambda x: jax.value_and_grad(problem.loss)(params, x, targets, jnp.ones(1)))
        one, other = losses(inputs), losses(inputs.at[0, last:].set(7))
        assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-6), one, other))

    def test_a_clients_own_loss_is_the_mean_over_its_windows(self):
        problem = made()
        params, data = problem.init(jax.random.key(0)), problem.client(2)
        own, each = jax.jit(lambda params: (own_measures(data, params), data.evaluate(params, jnp.arange(2))))(params)
        assert own["loss"] == pytest.approx(float(each["loss"].mean()), rel=1e-5)

    def test_a_few_windows_at_a_time_are_all_of_them(self, monkeypatch):
        problem = made(test="some more of it, and some more")
        params = problem.init(jax.random.key(0))
        whole = measures(problem, params)
        monkeypatch.setattr("hush.tasks.problem.TARGETS_AT_ONCE", 17)
        for name, value in measures(problem, params).items():
            assert value == pytest.approx(float(whole[name]), rel=1e-5)


class TestFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "texts").mkdir()
        for name, text in (("b", "bees build hives"), ("a", "ants go marching")):
            (tmp_path / "texts" / f"{name}.txt").write_text(text, encoding="utf-8")
        lines = [{"client": "b", "text": "bees build hives"}, {"client": "a", "text": "ants go marching"}]
        (tmp_path / "texts.jsonl").write_text("\n\n".join(map(json.dumps, lines)), encoding="utf-8")
        (tmp_path / "test.txt").write_text("ants and bees", encoding="utf-8")
        return tmp_path

    def test_a_folder_and_a_file_of_lines_are_the_same_task(self, folder):
        ways = [folder / "texts", folder / "texts.jsonl"]
        one, other = (
            hush.tasks.tokens(path=str(way), test=str(folder / "test.txt"), length=5, **SMALL) for way in ways
        )
        held = [[said(each, row, string.printable) for row in np.asarray(each.index)] for each in (one, other)]
        assert held[0] == held[1] == ["ants g", "o marc", "hing", "bees b", "uild h", "ives"]
        assert one.test.x.shape == (2, 5)

    def test_a_settings_file_makes_it(self, folder):
        task = {"name": "tokens", "path": str(folder / "texts"), "model": "gpt", "length": 5}
        task |= {"model_options": {"width": 8, "heads": 2}, "test": str(folder / "test.txt")}
        problem = build({"algorithm": {"name": "fedavg"}, "task": task}).problem()
        assert problem.recipe.settings == task | {"precision": "float32"}
        assert (
            build({"algorithm": {"name": "fedavg"}, "task": problem.recipe.settings}).problem().population.clients == 2
        )

    @pytest.mark.parametrize(
        ("name", "content", "sentence"),
        [
            ("x.jsonl", '{"client": "a"}', 'line 1 must be as {"client": "Ada"'),
            ("x.jsonl", '{"client": "a", "text": "ab"}\n[]', "line 2 must be as"),
            ("x.jsonl", '{"client": true, "text": "ab"}', "text or a whole number for client"),
            ("x.csv", "", "a folder of .txt files, a .jsonl file or a .txt file"),
            ("none/x.txt", None, "cannot be read as UTF-8 text"),
            ("", None, "must hold a .txt file for each client"),
        ],
    )
    def test_what_cannot_be_read_is_refused(self, tmp_path, name, content, sentence):
        if content is not None:
            (tmp_path / name).write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=sentence):
            hush.tasks.tokens(path=str(tmp_path / name))


class TestDocumentation:
    def test_is_the_same_each_time_and_somebodys_alone(self):
        one, other = (hush.tasks.python_docs(3, length=32, **SMALL) for _ in range(2))
        np.testing.assert_array_equal(one.train.x, other.train.x)
        assert one.population.clients == 3
        windows = len(one.train.x) + len(one.test.x)
        assert len(one.test.x) == windows // 10
        total = sum(-(-len(text) // 33) for text in docstrings(3)[0])
        assert total - 3 <= windows <= total

    def test_every_module_is_there(self):
        texts, modules = docstrings(40)
        assert modules == list(MODULES)
        assert len(set(modules)) == 40
        assert min(map(len, texts)) > 4000
        assert docstrings(2, 38)[1] == ["traceback", "typing"]
        with pytest.raises(ValueError, match="clients must be a whole number from 1 to 3, found 4"):
            docstrings(4, 37)


class TestRuns:
    @pytest.mark.slow
    def test_with_a_folder_a_report_and_privacy(self, tmp_path, unpainted):
        problem = made(test="weave looms")
        assert class_counts(problem) is None
        oracle = hush.local.ClippedPerExample(1.0, noise_multiplier=2.0)
        local = hush.local.LocalSGD(lr=0.1, steps=2, batches=hush.local.Subset(1), oracle=oracle)
        algorithm = hush.Algorithm(hush.cohort.Everyone(), local)
        result = hush.run(algorithm, problem, rounds=2, folder=tmp_path / "run", progress=False, evaluate_clients=True)
        last = result.records.iloc[-1]
        assert last["perplexity"] == pytest.approx(math.exp(last["test_loss"]), rel=1e-5)
        assert last["epsilon"] > 0
        assert "perplexity" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
        assumed = hush.privacy.describe(algorithm, problem, 2).phases[0].assumptions
        assert sum("vocabulary" in each for each in assumed) == 1
        with pytest.raises(ValueError, match="has no classes: its measures are next_token"):
            result.calibration()

    @pytest.mark.slow
    def test_the_example(self):
        path = Path(__file__).parents[2] / "examples" / "text" / "finetune.py"
        found = runpy.run_path(str(path))["main"]()
        assert found["all weights"] < found["LoRA"] < found["as it came"] < 30
        assert found["LoRA, private"] < 1.05 * found["as it came"]

    def test_some_clients_alone(self):
        problem = made(test="weave looms").restrict([1])
        assert problem.test is None
        assert list(problem.tables()) == ["train"]


GOOD = np.arange(12).reshape(4, 3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: hush.tasks.tokens(), "sequences with their client_ids, a dictionary of texts, or a path"),
        (lambda: hush.tasks.tokens(TEXTS, path="x"), "one of these"),
        (lambda: hush.tasks.tokens(TEXTS, ["a"]), "a dictionary names its clients itself"),
        (lambda: hush.tasks.tokens("a text"), "one text alone has no clients"),
        (lambda: hush.tasks.tokens({}), "must have clients in it"),
        (lambda: hush.tasks.tokens({"a": 3}), "a text or a list of texts, found 3 of 'a'"),
        (lambda: hush.tasks.tokens(["ab", "cd"], [0]), "a client for each of 2 texts, found 1"),
        (lambda: made({"ada": "text", "bob": "x"}), "a text of two tokens or more, found none of 'bob'"),
        (lambda: made(test="x"), "test must have a text of two tokens or more"),
        (lambda: made(test=3), "a text or a list of texts, found 3"),
        (lambda: made(padding=0), "texts are filled up by themselves"),
        (lambda: made(vocabulary=3), "characters, a function or a tokeniser, found 3"),
        (lambda: made(vocabulary=lambda text: [-1, 2]), "a list of tokens from 0 on"),
        (lambda: made(model="mlp", model_options=None), "unknown model of text 'mlp'"),
        (lambda: made(length=0), "length must be a whole number of at least 1"),
        (lambda: hush.tasks.tokens(GOOD.astype(float), range(4)), "integers .*found float64"),
        (lambda: hush.tasks.tokens([[1, 2], [1]], [0, 1]), "found a ragged one"),
        (lambda: hush.tasks.tokens(-GOOD, range(4)), "tokens from 0 on"),
        (lambda: hush.tasks.tokens(GOOD, range(4), length=4), r"\[n, 5\], found \(4, 3\)"),
        (lambda: hush.tasks.tokens(GOOD, range(3)), "a client for each of 4 windows, found 3"),
        (lambda: hush.tasks.tokens(GOOD, range(4), vocabulary=8), "below 8, the size of the vocabulary, found 11"),
        (lambda: hush.tasks.tokens(GOOD, range(4), test=GOOD[:, :2]), r"test must be \[n, 3\]"),
        (lambda: hush.tasks.tokens(GOOD, range(4), padding=3), "found padding before a token in row 1"),
        (lambda: hush.tasks.tokens([[1, 0, 0]], [0], padding=0), "needs two tokens or more, found fewer in row 0"),
        (lambda: hush.tasks.characters([1, 2]), "characters are those of texts"),
        (lambda: hush.tasks.characters("abc"), "one text alone"),
    ],
)
def test_what_is_no_text_is_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_a_model_without_a_logit_for_each_token_is_refused():
    functions = lambda outputs: (lambda key: jnp.ones(1), lambda w, x: w * jnp.zeros((*x.shape, outputs)))  # noqa: E731
    assert hush.tasks.tokens(GOOD, range(4), model=functions(12)).population.clients == 4
    with pytest.raises(ValueError, match=r"by logits \[2, 12\] or more, found \[2, 11\]"):
        hush.tasks.tokens(GOOD, range(4), model=functions(11))
    with pytest.raises(ValueError, match=r"found \[12\]"):
        hush.tasks.tokens(GOOD, range(4), model=(lambda key: jnp.ones(12), lambda w, x: jnp.ones((len(x), 1)) * w))
