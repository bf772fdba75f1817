"""In a notebook: a result shows itself, and progress is one line; by a real kernel, and by streams of its kind."""

import io
import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import hush
from hush.runs import shown
from hush.runs.progress import Display, in_notebook

nbformat = pytest.importorskip("nbformat", reason="meets it for real: make peers")
nbclient = pytest.importorskip("nbclient", reason="meets it for real: make peers")

ROW = {"train_loss": 0.25, "accuracy": 0.5, "uplink_bits": 2e9}
BAD = "<script>alert('x')</script>"
RUN = """
import numpy as np, hush
draws = np.random.default_rng(7)
problem = hush.tasks.quadratic(draws.normal(size=(6, 4, 3)), draws.normal(size=(6, 4)))
hush.run(hush.fedavg(3, steps=2, lr=0.05), problem, 6, evaluate_every=1, repetitions=2)
"""


def stream_of_a_kernel():
    """A stream whose class says that it is ipykernel's."""
    made = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    return made()


def on_screen(text):
    """What is left to see where a carriage return goes back to the beginning of the line."""
    lines = []
    for line in text.split("\n"):
        seen = ""
        for part in line.split("\r"):
            seen = part + seen[len(part) :]
        lines.append(seen.rstrip())
    return lines


@pytest.fixture(scope="module")
def result(quadratic):
    algorithm = hush.dp_fedavg(3, 6, steps=2, lr=0.05, clip=1.0, noise_multiplier=2.0)
    return hush.run(algorithm, quadratic, 4, evaluate_every=2, repetitions=3, progress=False)


class TestProgress:
    def test_one_line_that_is_written_again(self, monkeypatch):
        monkeypatch.setattr("hush.runs.progress.SECONDS_BETWEEN_LOOKS", 0.0)
        stream = stream_of_a_kernel()
        with Display(1000, stream=stream) as display:
            display.message("compiling")
            for done in (1, 500, 1000):
                display.update(done, ROW)
        seen = on_screen(stream.getvalue())
        assert seen == ["compiling", "round 1000/1000  loss 0.25  accuracy 50.00 %  sent 2 Gbit", ""]
        assert stream.getvalue().count("\r") == 4

    def test_a_shorter_line_covers_a_longer_one(self, monkeypatch):
        monkeypatch.setattr("hush.runs.progress.SECONDS_BETWEEN_LOOKS", 0.0)
        stream = stream_of_a_kernel()
        with Display(1000, stream=stream) as display:
            display.update(1, ROW | {"epsilon": 1.5})
            display.update(2, {"train_loss": 1.0})
            display.message("repetition 1 met a number that is not finite")
            display.update(3, ROW)
        first, second, _ = on_screen(stream.getvalue())
        assert first == "repetition 1 met a number that is not finite"
        assert second.startswith("round 3/1000")

    def test_the_last_is_always_shown(self):
        stream = stream_of_a_kernel()
        with Display(1000, stream=stream) as display:
            for done in range(1, 50):
                display.update(done, ROW)
        assert on_screen(stream.getvalue())[0].startswith("round 49/1000")

    def test_standard_output_is_where_it_is_shown(self, monkeypatch):
        out = stream_of_a_kernel()
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", stream_of_a_kernel())
        with Display(2) as display:
            display.update(2, ROW)
        assert "round 2/2" in out.getvalue()

    def test_other_streams_are_none(self):
        assert not in_notebook(io.StringIO())
        assert not in_notebook(None)


class TestResult:
    def test_what_it_says(self, result):
        said = result._repr_html_()
        last = result.records[result.records["round"] == 4]
        spread = np.std(last["train_loss"], ddof=1)
        assert "finished at round 4 of 4." in said
        assert "poisson → sgd → clip" in said
        digits = 1 - math.floor(math.log10(spread))  # two of the deviation, and the mean to the same place
        assert f"{last['train_loss'].mean():.{digits}f} ± {spread:.{digits}f}" in said
        assert "over 3 repetitions" in said
        assert "ε = " in said
        assert "at δ = 1e-05; protected is" in said
        assert "for all 3 together" in said

    def test_it_is_complete_in_itself_and_well_formed(self, result):
        said = result._repr_html_()
        ElementTree.fromstring(said.replace("&nbsp;", " "))
        assert "<svg" in said
        assert not re.search(r"<script|https?://|@import|src=", said)
        assert said == result._repr_html_()

    def test_without_pictures(self, result, monkeypatch):
        monkeypatch.setattr("hush.extras.find_spec", lambda name: None)
        said = result._repr_html_()
        assert "<svg" not in said
        assert "training loss" in said

    def test_nothing_of_the_user_is_obeyed(self, result):
        records = result.records.rename(columns={"train_loss": BAD})
        status = {"status": BAD, "message": BAD, "privacy": {"guarantee": "none", "reason": BAD}}
        settings = {"task": {"name": BAD}, "local": {"piece": BAD}, "uplink": [{"piece": BAD}]}
        said = shown.as_html(records.assign(**{f"local.{BAD}": 0.1}), status, settings)
        assert "<script" not in said
        assert said.count("&lt;script&gt;") >= 6
        ElementTree.fromstring(said)

    def test_before_the_first_evaluation(self, result):
        said = shown.as_html(result.records.iloc[:0], {"status": "failed"}, {})
        assert "no evaluations yet" in said

    def test_of_a_long_sweep_the_first_points(self, result):
        records = result.records.loc[result.records.index.repeat(30)]
        records = records.assign(**{"local.lr": np.tile(np.arange(30.0), len(result.records))})
        said = shown.as_html(records, result.status, result.settings)
        assert said.count("<tr>") == 1 + shown.MOST_POINTS
        assert f"{shown.MOST_POINTS} of 30 points" in said


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the notebook's libraries
def test_in_a_real_kernel(tmp_path, pytestconfig, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath / "src"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(RUN)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python", "language": "python"}
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = notebook.cells[0].outputs
    streams = [output for output in outputs if output.output_type == "stream"]
    assert {output.name for output in streams} == {"stdout"}
    seen = on_screen("".join(output.text for output in streams))
    assert seen[-2].startswith("round 6/6")
    assert len(seen) <= 3
    (result,) = [output for output in outputs if output.output_type == "execute_result"]
    assert "finished at round 6 of 6." in result.data["text/html"]
    assert "<svg" in result.data["text/html"]
