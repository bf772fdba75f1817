"""The server of `hush view`, asked over a real socket: who may look, what there is, that nothing is written."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from view_samples import PRIVATE, Asking, begin, everything, rows, written

from hush.app.main import app
from hush.store import RunFolder
from hush.view.server import MOST_COMPARED, serving
from hush.view.shelf import key_of

pytestmark = pytest.mark.slow  # many small runs, which add up

SOURCE = Path(__file__).parents[2] / "src"
BAD = "<script>alert(1)</script>"


@pytest.fixture
def runs(tmp_path):
    root = tmp_path / "runs"
    written(root / "one")
    written(root / "two" / "inner", rows(40, accuracy=0.25))
    return root


@pytest.fixture
def asking(runs):
    with serving(runs) as keys:
        made = Asking(keys.address)
        made.enter()
        yield made


def address(root, name):
    return f"/run/{key_of(root, root / name)}"


class TestWhoMayLook:
    def test_only_who_has_the_token(self, runs):
        with serving(runs) as keys:
            stranger = Asking(keys.address)
            for path in (
                "/",
                "/changes",
                "/page.js",
                "/compare",
                address(runs, "one"),
                "/?token=",
                "/?token=%C3%A9&once=",
            ):
                answer, text = stranger.get(path)
                assert answer.status == 403, path
                assert "one" not in text.split()
                assert answer.getheader("Set-Cookie") is None
            answer = stranger.enter()
            assert answer.status == 200
            said = answer.getheader("Set-Cookie")
            assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(said.split("; "))
            assert stranger.get("/")[0].status == 200
            assert stranger.get("/", Cookie=f"odd,one; a b; {stranger.cookie}")[0].status == 200
            assert stranger.get("/", Cookie=stranger.cookie[:-1])[0].status == 403

    def test_two_servers_have_two_tokens(self, runs):
        with serving(runs) as one, serving(runs) as other:
            assert one.token != other.token
            assert Asking(other.address).get(f"/?token={one.token}")[0].status == 403

    def test_what_a_browser_is_started_with_opens_once(self, runs):
        with serving(runs) as keys:
            assert keys.token not in keys.address_once
            browser, thief = Asking(keys.address_once), Asking(keys.address_once)
            assert browser.enter().status == 200
            assert thief.enter().status == 403
            assert browser.get("/")[0].status == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}"]
    )
    def test_only_by_its_own_names(self, asking, host):
        assert asking.get("/", host=host.format(port=asking.place.port))[0].status == 403
        assert asking.get("/", host=f"localhost:{asking.place.port}")[0].status == 200

    def test_on_this_machine_alone(self, asking):
        listening = Path("/proc/net/tcp")
        if not listening.exists():
            pytest.skip("only Linux says who listens where")
        port = f":{asking.place.port:04X}"
        (line,) = [
            line for line in listening.read_text().splitlines() if line.split()[1].endswith(port) and " 0A " in line
        ]
        assert line.split()[1] == f"0100007F{port}"

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
    def test_nothing_can_be_changed(self, asking, method):
        assert asking.get("/", method=method)[0].status == 405

    def test_headers_of_every_answer(self, asking, runs):
        for path in ("/", "/changes", address(runs, "none")):
            answer, _ = asking.get(path)
            assert answer.getheader("Cache-Control") == "no-store"
            assert answer.getheader("Referrer-Policy") == "no-referrer"
            assert answer.getheader("X-Content-Type-Options") == "nosniff"
        policy = asking.get("/")[0].getheader("Content-Security-Policy")
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy


class TestWhatThereIs:
    def test_the_list_and_what_has_changed_since(self, asking, runs):
        page = asking.get("/")[1]
        assert ">one</a>" in page
        assert ">two/inner</a>" in page
        assert ">one</a>" not in asking.get("/?q=inner")[1]
        news = json.loads(asking.get("/changes?since=0")[1])
        assert len(news["rows"]) == 2
        again = json.loads(asking.get(f"/changes?since={news['version']}")[1])
        assert (again["rows"], again["gone"], again["version"]) == ({}, [], news["version"])
        for odd in ("", "x", "-1", "99999", "1e3", "%D9%A3"):
            assert len(json.loads(asking.get(f"/changes?since={odd}")[1])["rows"]) == 2

    def test_a_run_is_seen_to_grow(self, asking, runs):
        with RunFolder(runs / "live") as files:
            begin(files)
            version = json.loads(asking.get("/changes?since=0")[1])["version"]
            for done in (10, 20):
                files.append(rows(done))
                news = json.loads(asking.get(f"/changes?since={version}")[1])
                ((_, html),) = news["rows"].items()
                assert f"{done} of 40" in html
                assert "running" in html
                version = news["version"]

    @pytest.mark.parametrize(
        "path",
        [
            "/run/../../secret",
            "/run/%2e%2e%2f%2e%2e%2fsecret",
            "/run/one",
            "/run/one/records.csv",
            "/runs/one/records.csv",
            "//etc/passwd",
            "/../../../../etc/passwd",
            "/page.py",
            "/server.py",
            "/run/",
            "/run/%00",
            "/compare/../page.py",
        ],
    )
    def test_no_address_is_the_path_of_a_file(self, asking, runs, path):
        (runs.parent / "secret").write_text("hush")
        assert asking.get(path)[0].status == 404

    @pytest.mark.usefixtures("unpainted")
    def test_nothing_is_written(self, asking, runs):
        """Neither by the list, nor by a report that is made, nor by a comparison; nor into a run that goes on."""
        with RunFolder(runs / "live") as files:
            begin(files)
            files.append(rows(10))
            before = everything(runs)
            for path in ("/", "/changes?since=0", *(address(runs, name) for name in ("one", "live"))):
                assert asking.get(path)[0].status == 200
            keys = "&".join(f"run={key_of(runs, runs / name)}" for name in ("one", "two/inner", "live"))
            answer, page = asking.get(f"/compare?{keys}")
            assert answer.status == 200
            assert "hush, comparison of runs" in page
            assert everything(runs) == before

    @pytest.mark.usefixtures("unpainted")
    def test_the_report_of_a_run_that_goes_on_says_so(self, asking, runs):
        with RunFolder(runs / "live") as files:
            begin(files, privacy=PRIVATE)
            files.append(rows(10, epsilon=0.75))
            page = asking.get(address(runs, "live"))[1]
            assert "Still running when this page was written.</strong> 10 of 40 rounds." in page
            # Its status is of its beginning, where it had spent nothing.
            assert "ε, worst client" not in page
            assert "worked out when the run ends" in page
        assert "as if killed" in asking.get(address(runs, "live"))[1]
        assert "Damaged" not in asking.get(address(runs, "live"))[1]

    def test_a_report_that_the_run_has_written_is_shown_as_it_is(self, asking, runs):
        (runs / "one/report.html").write_text(f"<p>as written {BAD}")
        answer, page = asking.get(address(runs, "one"))
        assert page == f"<p>as written {BAD}"
        # Whatever it holds, it is of no site, and can ask for nothing.
        policy = answer.getheader("Content-Security-Policy")
        assert "sandbox allow-scripts" in policy
        assert "allow-same-origin" not in policy
        assert "default-src 'none'" in policy
        assert "connect-src" not in policy

    @pytest.mark.usefixtures("unpainted")
    def test_a_page_is_made_once_for_as_long_as_nothing_changes(self, asking, runs, monkeypatch):
        made = []
        monkeypatch.setattr("hush.view.made.write_report", lambda folder: made.append(1) or _said(folder))
        for _ in range(2):
            asking.get(address(runs, "one"))
        assert len(made) == 1
        (runs / "one/status.json").write_text("{}")
        asking.get(address(runs, "one"))
        assert len(made) == 2

    @pytest.mark.parametrize("count", [0, 1])
    def test_a_comparison_takes_two(self, asking, runs, count):
        answer, page = asking.get("/compare?run=nobody" + f"&run={key_of(runs, runs / 'one')}" * count)
        assert answer.status == 422
        assert f"from two to {MOST_COMPARED} runs, found {count}" in page

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_what_cannot_be_shown_says_why(self, asking, runs):
        (runs / "one/settings.toml").write_text("[local\n")
        answer, page = asking.get(address(runs, "one"))
        assert answer.status == 422
        assert "settings.toml cannot be read" in page
        assert asking.get("/")[0].status == 200

    def test_links_that_lead_out_are_not_read(self, asking, runs):
        secret = runs.parent / "secret"
        secret.write_text("hush")
        (runs / "one/report.html").symlink_to(secret)
        answer, page = asking.get(address(runs, "one"))
        assert answer.status == 422
        assert "report.html leads out" in page
        both = f"run={key_of(runs, runs / 'one')}&run={key_of(runs, runs / 'two/inner')}"
        assert asking.get(f"/compare?{both}")[0].status == 422

    def test_names_are_shown_and_never_obeyed(self, asking, runs):
        written(runs / BAD.replace("/", "_"))
        written(runs / os.fsdecode(b"not \xff utf-8"))
        page = asking.get("/")[1] + asking.get("/changes?since=0")[1]
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page
        assert "not \ufffd utf-8" in page


def _said(folder):
    page = folder / "report.html"
    page.write_text("made")
    return page


class TestCommand:
    def test_a_folder_that_is_none(self, tmp_path):
        ran = CliRunner().invoke(app, ["view", str(tmp_path / "none"), "--no-browser"])
        assert ran.exit_code == 2
        assert "is no folder" in " ".join(ran.output.split())

    def test_a_port_that_is_taken(self, asking, runs):
        ran = CliRunner().invoke(app, ["view", str(runs), "--no-browser", "--port", str(asking.place.port)])
        assert ran.exit_code == 2
        assert "cannot be used" in " ".join(ran.output.split())

    def test_help_teaches(self):
        said = CliRunner().invoke(app, ["view", "--help"]).output
        for word in ("hush view results", "--no-browser", "token", "Ctrl-C"):
            assert word in said

    @pytest.mark.slow
    def test_ctrl_c_is_the_end_that_was_meant(self, runs):
        # Whoever runs the tests may have been told to ignore it.
        program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        program += "from hush.app.start import main; main()"
        command = [sys.executable, "-c", program, "view", str(runs), "--no-browser"]
        environment = os.environ | {"PYTHONPATH": str(SOURCE)}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            asking = Asking(process.stdout.readline().strip())
            assert asking.enter().status == 200
            process.send_signal(signal.SIGINT)
            _, said = process.communicate()
        assert (process.returncode, said) == (0, "")
