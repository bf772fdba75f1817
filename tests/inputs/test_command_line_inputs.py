"""Bad command lines: a row is what is typed and the one line it must get, before any work and without a folder."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hush.app.main import app

TINY = (Path(__file__).parents[1] / "tiny.toml").read_text()
FILES = {
    "tiny.toml": TINY.encode(),
    "empty.toml": b"",
    "binary.toml": bytes(range(256)),
    "nul.toml": b'a = "\x00"',
    "latin.toml": "name = 'é'".encode("latin-1"),
    "text.toml": b"hello world",
    "twice.toml": b"[run]\nrounds=1\n[run]\nrounds=2\n",
    "overwritten.toml": b"run.rounds=1\nrun.rounds=2\n",
    "deep.toml": b"a = " + b"[" * 5000 + b"]" * 5000,
    "inline.toml": b"a = " + b"{a=" * 5000 + b"1" + b"}" * 5000,
    "keys.toml": b".".join([b"a"] * 5000) + b" = 1",
    "table.toml": b"[" + b".".join([b"a"] * 5000) + b"]\nb=1",
    "forty.toml": b"a = " + b"[" * 40 + b"]" * 40,
    "big.toml": b"#" * 10_000_001,
    "long.toml": b"[run]\nrounds = " + b"9" * 5000,
    "number.toml": b"run = 99999999999999999999999999",
    "unknown.toml": b"[nosuch]\na=1",
    "no_algorithm.toml": b"[run]\nrounds=1\n",
    "no_task.toml": b"[algorithm]\nname='fedavg'\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("typed")
    for name, content in FILES.items():
        (made / name).write_bytes(content)
    (made / "folder.toml").mkdir()
    return made


@pytest.fixture
def told(folder, monkeypatch):
    """The command ends with code 2 and one line that says so; nothing is left behind."""
    monkeypatch.chdir(folder)

    def check(sentence, *arguments):
        before = sorted(folder.rglob("*"))
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == 2, (result.output[-500:], result.exception)
        said = " ".join(re.sub("[│╭╮╰╯─]", " ", result.output).split())
        assert re.search(sentence, said), said[-500:]
        assert "Traceback" not in said
        assert len(said) < 3000
        assert sorted(folder.rglob("*")) == before

    return check


WRITTEN = "a setting is written name=value"
AT_LEAST_1, UP_TO = "must be a whole number of at least 1", "must be a whole number from 1 to 2147483647"
POSITIVE = "must be a positive number"
DEEP = "is nested more than 30 deep"

SETTINGS = [
    ("", WRITTEN),
    ("=", WRITTEN),
    ("a=", WRITTEN),
    ("=1", WRITTEN),
    ("run", WRITTEN),
    (".=1", WRITTEN),
    ("run.rounds", WRITTEN),
    ("run..rounds=1", WRITTEN),
    ("run.rounds=0", f"run: rounds {AT_LEAST_1}, found 0"),
    ("run.rounds=-1", f"run: rounds {AT_LEAST_1}, found -1"),
    ("run.rounds=3000000000", f"run: rounds {UP_TO}, found 3000000000"),
    ("run.rounds=1e9", r"run.rounds: must be a whole number, found 1000000000.0 \(a number\)"),
    ("run.rounds=nan", "run.rounds: must be a whole number, found nan"),
    ("run.rounds='x'", r"run.rounds: must be a whole number, found 'x' \(text\)"),
    ("run.rounds=[1]", "found an array of 1"),
    ("run.rounds=true", r"found true \(true or false\)"),
    ("run.rounds={a=1}", "found a table with a"),
    ("run.rounds=2020-01-01", r"\(date\)"),
    ("run.rounds='''", "is not a TOML value"),
    ('run.rounds="\\ud800"', "is not a TOML value"),
    ("run.rounds=\x00", "must be a whole number, found"),
    ("run.rounds=" + "x" * 100_000, r"found 'xxx.*…"),
    ("run.rounds=0x" + "f" * 3000, "of at most 64 bits, found a whole number of about 3613 digits"),
    ("run.rounds=" + "9" * 5000, "is a number of thousands of digits; allowed are 64 bits"),
    ("run.rounds=" + "[" * 5000 + "]" * 5000, DEEP),
    ("run.rounds=" + "[" * 100 + "]" * 100, DEEP),
    (".".join(["a"] * 5000) + "=1", DEEP),
    ("run.seed=-1", "run: seed must be a whole number of at least 0, found -1"),
    ("run.seed=18446744073709551616", "run.seed: must be a whole number of at most 64 bits"),
    ("run.seed=1.5", "run.seed: must be a whole number, found 1.5"),
    ("run.seed='a'", "run.seed: must be a whole number"),
    ("run.repetitions=0", "repetitions must be a whole number from 1 to 1000000, found 0"),
    ("run.repetitions=-3", "repetitions must be a whole number from 1 to 1000000, found -3"),
    ("run.repetitions=1000000000", "repetitions must be a whole number from 1 to 1000000"),
    ("run.repetitions=[]", "repetitions must be 1 to 1,000,000 numbers in one list"),
    ("run.repetitions=[0, 0]", "different numbers from 0"),
    ("run.repetitions=[5000000000]", "a repetition's number must be a whole number from 0 to 4294967295"),
    ("run.repetitions=['a']", "run.repetitions.0: must be a whole number"),
    ("run.repetitions=[[0]]", "run.repetitions.0: must be a whole number, found an array of 1"),
    ("run.evaluate_every=0", f"evaluate_every {AT_LEAST_1}"),
    ("run.evaluate_every=10000000000000", f"evaluate_every {UP_TO}"),
    ("run.bit_budget=nan", f"bit_budget {POSITIVE}, found nan"),
    ("run.bit_budget=inf", f"bit_budget {POSITIVE}, found inf"),
    ("run.bit_budget=0", f"bit_budget {POSITIVE}, found 0"),
    ("run.bit_budget=-1", f"bit_budget {POSITIVE}, found -1"),
    ("run.capacity=0", f"capacity {POSITIVE}"),
    ("run.capacity='fast'", "run.capacity: must be a number, found 'fast'"),
    ("run.delta=0", f"delta {POSITIVE}"),
    ("run.delta=2", "run: delta must be a number above 0 and below 1, found 2.0"),
    ("run.delta=nan", f"delta {POSITIVE}, found nan"),
    ("run.epsilon=0", f"epsilon {POSITIVE}"),
    ("run.epsilon=nan", f"epsilon {POSITIVE}, found nan"),
    ("run.watch=1", "run.watch: must be true or false, found 1"),
    ("run.keep_models='yes'", "run.keep_models: must be true or false, found 'yes'"),
    ("run.sample_every=0", f"sample_every {AT_LEAST_1}"),
    ("run.warm_up=-1", "warm_up must be a whole number of at least 0"),
    ("run.most_samples=1", "most_samples must be a whole number of at least 2"),
    ("run.devices=0", f"devices {AT_LEAST_1}"),
    ("run.devices=1000000", "devices must be between 1 and the"),
    ("run.clients_at_once=0", f"clients_at_once {AT_LEAST_1}"),
    ("run.nothing=1", "run.nothing: unknown field; known: bit_budget"),
    ("run.ünï=1", "run.ünï: unknown field"),
    ("run=3", "run: must be a table, found 3"),
    ("run=[1]", "run: must be a table, found an array of 1"),
    ("task=1", "task: must be a table"),
    ("task.name=3", "unknown task 3"),
    ("task.name=''", "unknown task ''"),
    ("task.name='mnits'", "did you mean 'mnist'"),
    ("task.name='own'", "the problem is the user's own"),
    ("task.clients=0", f"task: clients {AT_LEAST_1}"),
    ("task.clients=1000000000000", f"task: clients {UP_TO}"),
    ("task.clients=1000000000", "task: this task needs at least 160.0 GB of memory, and there are 8.0 GB here"),
    ("task.clients=2.5", "task.clients: must be a whole number"),
    ("task.clients='many'", "task.clients: must be a whole number"),
    ("task.examples=1", "must be a whole number of at least 2"),
    ("task.examples=100000000000", "must be a whole number from 2 to"),
    ("task.dimension=0", f"dimension {AT_LEAST_1}"),
    ("task.dimension=1000000000", "this task needs at least 320.0 GB"),
    ("task.noise=nan", "noise must be a number of at least 0, found nan"),
    ("task.heterogeneity=inf", "heterogeneity must be a number of at least 0, found inf"),
    ("task.seed=-1", "seed must be a whole number"),
    ("task.seed=99999999999999999999", "task.seed: must be a whole number of at most 64 bits"),
    ("task.model='mlp'", "task.model: unknown setting of linear_regression"),
    ("task.model_options=3", "unknown setting of linear_regression"),
    ("algorithm=3", "algorithm: must be a table"),
    ("algorithm.name=3", "unknown algorithm 3"),
    ("algorithm.name='fedavgg'", "did you mean 'fedavg'"),
    ("algorithm.clients=0", f"cohort size {AT_LEAST_1}"),
    ("algorithm.clients=9", "draws 9 different clients, but there are only 4"),
    ("algorithm.clients=1000000000000", f"cohort size {UP_TO}"),
    ("algorithm.steps=0", f"steps {AT_LEAST_1}"),
    ("algorithm.steps=3000000000", f"steps {UP_TO}"),
    ("algorithm.steps=2000000000", "one client's round needs at least 16.0 GB of memory"),
    ("algorithm.steps=true", "algorithm.steps: must be a whole number, found true"),
    ("algorithm.epochs=1", "either steps or epochs"),
    ("algorithm.lr=0", f"lr {POSITIVE}, found 0"),
    ("algorithm.lr=-1", f"lr {POSITIVE}, found -1"),
    ("algorithm.lr=nan", "lr must be a finite number, found nan"),
    ("algorithm.lr=inf", "lr must be a finite number, found inf"),
    ("algorithm.lr=1e300", r"at most 3.4e\+38, found 1e\+300"),
    ("algorithm.lr='x'", "algorithm.lr.piece: unknown piece 'x'"),
    ("algorithm.lr=[]", "algorithm.lr: must be a number or a table with a piece"),
    ("algorithm.lr={}", "algorithm.lr.piece: is missing"),
    ("algorithm.lr={piece='inverse_time'}", "algorithm.lr.initial: is missing"),
    ("algorithm.lr={piece='inverse_time', initial=-1.0}", f"initial {POSITIVE}"),
    ("algorithm.lr={piece='optax', name='cosine'}", "unknown optax schedule 'cosine'"),
    ("algorithm.lr={piece='optax', name='cosine_decay_schedule'}", "the schedule for lr fails at count 0: TypeError"),
    ("algorithm.batch=0", f"batch {AT_LEAST_1}"),
    ("algorithm.batch=10000000000000", f"batch {UP_TO}"),
    ("algorithm.sampling='subst'", "did you mean 'subset'"),
    ("algorithm.weighting='x'", "unknown weighting 'x'"),
    ("algorithm.weight_decay=-1", "weight decay must be a number of at least 0"),
    ("algorithm.server_lr=0", f"server lr {POSITIVE}"),
    ("algorithm.nosuch=1", "algorithm.nosuch: unknown field"),
    ("local=3", "local: must be a table with a piece"),
    ("local='nosuch'", "local.piece: unknown piece 'nosuch'"),
    ("local.lr=-1", f"local: lr {POSITIVE}"),
    ("local.piece='my.Rule'", "one of your own is written module:Class"),
    ("local.batches='x'", "local.batches.piece: unknown piece 'x'"),
    ("local.batches.size=0", "unknown field of full"),
    ("local.direction=[3]", "local.direction.0: must be a table with a piece"),
    ("local.direction=['proximal']", "local.direction.0.mu: is missing"),
    ("local.direction=[{piece='proximal', mu=nan}]", "mu must be a number of at least 0, found nan"),
    ("local.direction.0.mu=1", "there are only 0 to choose from"),
    ("local.direction.²=1", "local.direction: must be an array"),
    ("uplink=3", "uplink: must be an array"),
    ("uplink=['clip']", "uplink.0.bound: is missing"),
    ("uplink=[{piece='clip', bound=0}]", f"bound {POSITIVE}"),
    ("uplink=[{piece='clip', bound=1e-30}]", "bound must be a positive number of at least 8.7e-19, found 1e-30"),
    ("uplink=[{piece='qsgd', levels=0}]", "levels must be a whole number from 1 to"),
    ("uplink=[{piece='top_k', k=1000000}]", "k must be at most the 2 numbers of a message"),
    ("uplink=[{piece='nosuch'}]", "unknown piece 'nosuch'"),
    ("uplink.0=3", "there are only 0 to choose from"),
    ("uplink.99999999999999999999999=3", "uplink: must be an array"),
    ("uplink.²=1", "uplink: must be an array"),
    ("channel='nosuch'", "channel.piece: unknown piece 'nosuch'"),
    ("channel={piece='noisy', std=nan}", f"std {POSITIVE}, found nan"),
    ("server.lr=nan", f"server lr {POSITIVE}"),
    ("server={piece='optimiser', name='adma', settings={}}", "unknown optax optimiser 'adma'"),
    ("server={piece='optimiser', name='adam', settings={}}", "does not take settings"),
    ("cohort.size=0", f"cohort size {AT_LEAST_1}"),
    ("cohort.size=7", "draws 7 different clients"),
    ("cohort={piece='poisson', rate=2.0}", "rate must be a probability above 0 and at most 1"),
    ("cohort={piece='by_weight'}", "cohort.size: is missing"),
    ("phases=[]", "either phases or slots"),
    ("sweep=3", "sweep: must be a table"),
    ("sweep.local.lr=[]", "must be an array of one or more numbers"),
    ("sweep.local.lr=0.1", "must be an array of one or more numbers, found 0.1"),
    ("sweep.local.lr=['a']", "sweep.local.lr.0: must be a number"),
    ("sweep.local.lr=[true]", "sweep.local.lr.0: must be a number"),
    ("sweep.local.lr=[nan]", "a value of the sweep over local.lr must be a finite number, found nan"),
    ("sweep.local.lr=[0.1, -1.0]", f"lr {POSITIVE}, found -1"),
    ("sweep.local.nosuch=[1.0]", "no such number to sweep over"),
    ("ünïcode=1", "ünïcode: unknown table"),
    ("a.b.c.d=1", "a: unknown table"),
]


@pytest.mark.parametrize(("setting", "sentence"), SETTINGS, ids=[str(row) for row in range(len(SETTINGS))])
def test_settings(setting, sentence, told):
    told(sentence, "run", "tiny.toml", "--set", setting)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("empty.toml", "algorithm: is missing"),
        ("binary.toml", "is not a text file"),
        ("nul.toml", "is not TOML: Illegal character"),
        ("latin.toml", "is not a text file"),
        ("text.toml", "is not TOML"),
        ("twice.toml", "is not TOML: Cannot declare"),
        ("overwritten.toml", "is not TOML: Cannot overwrite"),
        ("deep.toml", DEEP),
        ("inline.toml", DEEP),
        ("keys.toml", DEEP),
        ("table.toml", DEEP),
        ("forty.toml", DEEP),
        ("big.toml", "is no settings file: it is larger than 10 MB"),
        ("long.toml", "holds a number of thousands of digits"),
        ("number.toml", "run: must be a table"),
        ("unknown.toml", "nosuch: unknown table"),
        ("no_algorithm.toml", "algorithm: is missing"),
        ("no_task.toml", "task: is missing"),
        ("folder.toml", "is a folder, a settings file is needed"),
        ("missing.toml", "missing.toml: no such file; there: "),
        ("", "is a folder"),
        ("/", "is a folder"),
        ("nosuch/there.toml", "no such file; no settings files in nosuch"),
        ("tiny.toml/there.toml", "cannot be read: Not a directory"),
        ("x" * 5000, "cannot be read: File name too long"),
    ],
)
def test_settings_files(name, sentence, told):
    told(sentence, "run", name)


OPTIONS = [
    (("--seeds", "0"), "repetitions must be a whole number from 1"),
    (("--seeds", "-1"), "repetitions must be a whole number from 1"),
    (("--seeds", "1000000000"), "repetitions must be a whole number from 1 to 1000000"),
    (("--seeds", "9" * 26), "run.repetitions: must be a whole number of at most 64 bits"),
    (("--seeds", "x"), "Invalid value for '--seeds'"),
    (("--seeds", "1.5"), "Invalid value for '--seeds'"),
    (("--seeds", ""), "Invalid value for '--seeds'"),
    (("--rounds", "0"), f"rounds {AT_LEAST_1}"),
    (("--rounds", "99999999999"), f"rounds {UP_TO}"),
    (("--rounds", "nan"), "Invalid value for '--rounds'"),
    (("--bits", "0"), f"bit_budget {POSITIVE}"),
    (("--bits", "-1"), f"bit_budget {POSITIVE}"),
    (("--bits", "nan"), f"bit_budget {POSITIVE}, found nan"),
    (("--bits", "inf"), f"bit_budget {POSITIVE}, found inf"),
    (("--bits", "x"), "Invalid value for '--bits'"),
    (("--epsilon", "0"), f"epsilon {POSITIVE}"),
    (("--epsilon", "nan"), f"epsilon {POSITIVE}, found nan"),
    (("--set",), "'--set' requires an argument"),
    (("--nosuch",), "No such option"),
]


@pytest.mark.parametrize(("options", "sentence"), OPTIONS)
def test_options(options, sentence, told):
    told(sentence, "run", "tiny.toml", *options)


PRIVATE = ("privacy", "--clients", 10, "--delta")

COMMANDS = [
    (("nosuch",), "No such command 'nosuch'"),
    (("",), "No such command ''"),
    (("list", "nosuch"), "unknown slot 'nosuch'"),
    (("list", ""), "unknown slot ''"),
    (("show", "nosuch"), "nosuch"),
    (("show", ""), "known: "),
    (("cite", "nosuch"), "nosuch"),
    (("cite", "deep.toml"), DEEP),
    (("cite", "binary.toml"), "is not a text file"),
    (("paper", "nosuch"), "unknown paper 'nosuch'"),
    (("paper", "fedpaq-dp", "--figure", "99"), "unknown figure of fedpaq-dp '99'"),
    (("privacy",), "say whose privacy"),
    (("privacy", "--clients", 0), "--delta is needed"),
    ((*PRIVATE, 0, "--rounds", 1, "--noise", 1), f"--delta {POSITIVE}"),
    ((*PRIVATE, 2, "--rounds", 1, "--noise", 1), "--delta must be a number above 0 and below 1"),
    ((*PRIVATE, "nan", "--rounds", 1, "--noise", 1), f"--delta {POSITIVE}, found nan"),
    ((*PRIVATE, 1e-5, "--rounds", 0, "--noise", 1), f"--rounds {AT_LEAST_1}"),
    ((*PRIVATE, 1e-5, "--rounds", 99999999999, "--noise", 1), f"--rounds {UP_TO}"),
    ((*PRIVATE, 1e-5, "--rounds", 1, "--noise", "nan"), "--noise must be a number of at least 0, found nan"),
    ((*PRIVATE, 1e-5, "--rounds", 1, "--noise", "inf"), "--noise must be a number of at least 0, found inf"),
    ((*PRIVATE, 1e-5, "--rounds", 1, "--noise", 1e300), r"at most 3.4e\+38, found 1e\+300"),
    ((*PRIVATE, 1e-5, "--rounds", 1, "--epsilon", -1), f"--epsilon {POSITIVE}"),
    ((*PRIVATE, 1e-5, "--rounds", 1, "--epsilon", "nan"), f"--epsilon {POSITIVE}"),
    (
        (*PRIVATE, 1e-5, "--per-round", 20, "--rounds", 1, "--noise", 1),
        "--per-round must be a whole number from 1",
    ),
    (("privacy", "--clients", 10**14, "--delta", 1e-5, "--rounds", 1, "--noise", 1), f"--clients {UP_TO}"),
]


@pytest.mark.parametrize(("arguments", "sentence"), COMMANDS)
def test_commands(arguments, sentence, told):
    told(sentence, *arguments)
