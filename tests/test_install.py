"""What a light installation has and lacks: extras that are asked for by name, a quick start, and the wheel itself."""

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import hush
from hush import extras
from hush.app.failures import NOT_INSTALLED
from hush.report.page import write_report

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TINY = ROOT / "tests/tiny.toml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PLAIN = {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "140", "NO_COLOR": "1", "TERM": "dumb"}
NOTICE = (
    r"warning: not written: report\.html and its pictures; pip install 'hush\[report\]', then hush report \S+ writes"
)

# What goes before a program that is to find some packages absent, as if they were not installed.
WITHOUT = """
import sys
ABSENT = set({absent!r})
class Finder:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = map(Finder, sys.meta_path)
"""
COMMAND = "import sys; sys.argv[0] = 'hush'; from hush.app.start import main; main()"
IN_PYTHON = """
import warnings
warnings.simplefilter("error")
import numpy as np, hush
from hush.extras import MissingExtra
draws = np.random.default_rng(0)
x, y = draws.normal(size=(12, 3)).astype(np.float32), draws.integers(0, 2, 12)
problem = hush.tasks.arrays(x, y, np.arange(12) % 4, model="softmax", test=(x, y))
result = hush.run(hush.fedavg(2, steps=1, lr=0.1), problem, 4, repetitions=2, sample_every=1, progress=False)
assert len(result.posterior.intervals()) == 8 and len(result.calibration()) == 4
def refused(*attempts):
    for attempt in attempts:
        try:
            attempt()
        except MissingExtra as error:
            print(error)
refused(result.plot, result.trace, result.density, result.reliability)
refused(result.posterior.summary, result.posterior.worst, result.posterior.to_arviz)
refused(lambda: hush.posterior.reference_posterior(problem))
def by_module():
    import hush.models.torch_module
refused(by_module)
"""


def python(program, *arguments, absent=()):
    """A process of its own, with some packages absent."""
    command = [sys.executable, "-c", WITHOUT.format(absent=sorted(absent)) + program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | PLAIN, check=False)


def fine(*arguments, **options):
    ran = python(*arguments, **options)
    assert ran.returncode == 0, ran.stderr
    return ran


class TestQuickStart:
    HEAVY = ("jax", "numpy", "pandas", "sklearn", "scipy.stats", "dp_accounting", *extras.PACKAGES)
    TELL = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr))\n"
    )

    @pytest.mark.parametrize("command", ["", *(f"{name} " for name in ("run", "report", "list", "privacy", "paper"))])
    def test_help_loads_nothing_heavy(self, command):
        ran = fine(self.TELL + COMMAND, *f"{command}--help".split())
        assert "Usage: hush" in ran.stdout
        assert ran.stderr.strip() == "[]"

    def test_importing_hush_loads_nothing_heavy(self):
        assert fine(self.TELL + "import hush; hush.__version__").stderr.strip() == "[]"

    def test_a_run_loads_no_extra_nor_what_an_epsilon_needs(self):
        run = "import hush.app.commands, hush.runs.run, hush.posterior, hush.network"
        assert fine(self.TELL + run).stderr.strip() == "['jax', 'numpy', 'pandas']"


class TestWithoutExtras:
    def test_in_python(self):
        said = fine(IN_PYTHON, absent=extras.PACKAGES).stdout.splitlines()
        assert said[:4] == 4 * ["plots need matplotlib: pip install 'hush[report]'"]
        samples = "diagnostics and netCDF files of posterior samples need arviz"
        assert said[4:7] == 3 * [f"{samples}: pip install 'hush[bayes]'"]
        assert said[7:] == [
            f"reference posteriors need blackjax; {samples}: pip install 'hush[bayes]'",
            "a torch.nn.Module as a model needs PyTorch: pip install 'hush[torch]'",
        ]

    @pytest.mark.usefixtures("unpainted")
    def test_on_the_command_line(self, tmp_path):
        folder = tmp_path / "run"
        ran = fine(COMMAND, "run", TINY, "--out", folder, absent=extras.PACKAGES)
        assert len(re.findall(NOTICE, ran.stderr)) == 1, ran.stderr
        written = {path.name for path in folder.iterdir()}
        assert {"records.parquet", "clients.parquet", "model.npz", "checkpoint.npz", "status.json"} <= written
        assert not [name for name in written if name.endswith((".html", ".png"))]
        refused = python(COMMAND, "report", folder, absent=extras.PACKAGES)
        assert refused.returncode == NOT_INSTALLED
        assert refused.stderr == "error: plots need matplotlib: pip install 'hush[report]'\n"
        write_report(folder)  # once it is there
        assert {"report.html", "curve-train_loss-round.png"} <= {path.name for path in folder.iterdir()}

    @pytest.mark.parametrize("command", [("compare", "a", "b"), ("paper", "fedpaq-dp"), ("paper", "fa-ld")])
    def test_commands_that_draw(self, command):
        refused = python(COMMAND, *command, absent=extras.PACKAGES)
        assert refused.returncode == NOT_INSTALLED
        assert re.fullmatch(r"error: plots need matplotlib.*: pip install 'hush\[report(,bayes)?\]'\n", refused.stderr)


class TestSamplesWithoutExtras:
    """A folder that lacks what an extra writes gets it when the run is resumed."""

    @pytest.mark.parametrize(
        ("absent", "notice"),
        [
            (
                ["arviz", "blackjax"],
                r"not written: diagnostics and netCDF .*; pip install 'hush\[bayes\]', then hush resume",
            ),
            (list(extras.PACKAGES), r"not written: report.html .*, diagnostics .*; pip install 'hush\[report,bayes\]'"),
        ],
    )
    @pytest.mark.usefixtures("unpainted")
    def test_they_are_written_later(self, absent, notice, quadratic, tmp_path, monkeypatch):
        how = {"rounds": 6, "repetitions": 2, "evaluate_every": 6, "sample_every": 1, "progress": False}
        algorithm = hush.fa_ld(steps=1, lr=1e-3)
        with monkeypatch.context() as patch:
            found = extras.find_spec
            patch.setattr(extras, "find_spec", lambda name: None if name in absent else found(name))
            with pytest.warns(UserWarning, match=notice):
                hush.run(algorithm, quadratic, folder=tmp_path, **how)
        assert (tmp_path / "report.html").exists() == ("matplotlib" not in absent)
        assert not list(tmp_path.glob("*.nc"))
        hush.run(algorithm, quadratic, folder=tmp_path, resume=True, **how)
        written = {path.name for path in tmp_path.iterdir()}
        assert {"report.html", "posterior.nc", "diagnostics.json", "trace.png", "density.png"} <= written


class TestProject:
    def test_every_package_is_in_its_extra(self):
        def names(requirements):
            return {re.match(r"[\w-]+", requirement).group() for requirement in requirements}

        optional = PROJECT["optional-dependencies"]
        for package, (need, extra, distribution) in extras.PACKAGES.items():
            assert (distribution or package) in names(optional[extra]), need
            assert package not in names(PROJECT["dependencies"])
            in_all = extra in re.fullmatch(r"hush\[(.*)\]", *optional["all"]).group(1).split(",")
            # One holds others' packages back, the other is for who has an account.
            assert in_all == (extra not in ("flower", "wandb"))
        found = {
            name
            for extra in optional
            if extra not in ("all", "dev", "docs", "peers")
            for name in names(optional[extra])
        }
        assert found == {each.distribution or package for package, each in extras.PACKAGES.items()}

    def test_one_version(self):
        cited = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
        assert cited == [hush.__version__]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


class TestWheel:
    def test_contents(self, wheel):
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
        assert "hush/py.typed" in names
        for folder in ("vendor", "browser"):  # what reports carry for the browser
            carried = {f"hush/report/{folder}/{path.name}" for path in (ROOT / "src/hush/report" / folder).iterdir()}
            assert carried <= set(names)
        assert {name.split("/")[0] for name in names} == {"hush", f"hush-{hush.__version__}.dist-info"}
        assert not [name for name in names if "test" in Path(name).name]
        modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/hush").rglob("*.py")}
        assert modules == {name for name in names if name.endswith(".py")}

    def test_runs_from_a_core_installation(self, wheel, tmp_path):
        venv.create(tmp_path / "venv", with_pip=True)
        scripts = tmp_path / "venv/bin"
        # Nothing of this checkout or of the environment that runs the tests may be found from in there.
        own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        install = [
            scripts / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--constraint",
            ROOT / "constraints.txt",
            wheel,
        ]
        subprocess.run(install, check=True, cwd=tmp_path, env=own)
        folders = {"tiny": [TINY], "digits": ["--rounds", "2"]}
        for name, arguments in folders.items():
            command = [scripts / "hush", "run", *arguments, "--out", name]
            ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=own, check=False)
            assert ran.returncode == 0, ran.stderr
            assert len(re.findall(NOTICE, ran.stderr)) == 1, ran.stderr
            assert (tmp_path / name / "records.parquet").is_file()
            assert not (tmp_path / name / "report.html").exists()
        listed = [scripts / "python", "-m", "pip", "list", "--format", "freeze"]
        installed = subprocess.run(listed, capture_output=True, text=True, check=True, cwd=tmp_path, env=own).stdout
        assert f"hush=={hush.__version__}" in installed
        assert not {line.partition("==")[0].lower() for line in installed.split()} & set(extras.PACKAGES)
