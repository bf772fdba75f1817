"""Run folders to look at, written as runs write them, and a browser's way to ask for pages of them."""

import hashlib
import http.client
from pathlib import Path
from urllib.parse import urlsplit

from hush.store import RunFolder

SETTINGS = {
    "local": {"piece": "sgd", "lr": 0.1, "oracle": {"piece": "mean"}},
    "uplink": [{"piece": "qsgd", "levels": 2}],
    "channel": {"piece": "digital"},
    "server": {"piece": "add"},
    "task": {"name": "digits", "model": "softmax", "clients": 4},
    "run": {"rounds": 40, "seed": 0},
}
GUARANTEE = {"what is protected": "one client", "who is trusted": "the server: it is honest"}
PRIVATE = {"guarantee": GUARANTEE, "noise": "drawn", "delta": 1e-5, "lanes": 1, "epsilon": 0.0, "median": 0.0}
PRIVATE |= {"rdp": 0.0, "pld": 0.0, "rounds": 0, "together": 0.0}


def rows(round, lanes=1, sweep=(), accuracy=None, epsilon=None):
    """The rows of one evaluation; accuracy grows with the rounds unless it is given."""
    reached = 1 - 0.9 ** (round / 4) if accuracy is None else accuracy
    return [
        {"repetition": repetition}
        | ({} if point is None else {"local.lr": point})
        | {"round": round, "train_loss": 1 - reached, "accuracy": reached * (point or 1) + 0.01 * repetition}
        | {"uplink_bits": 1000 * round, "downlink_bits": 4000 * round}
        | ({} if epsilon is None else {"epsilon": epsilon})
        | {"seconds": 0.1 * round}
        for point in sweep or (None,)
        for repetition in range(lanes)
    ]


def begin(files: RunFolder, settings=SETTINGS, **described):
    files.begin(settings, None)
    files.status(**({"status": "running", "message": "", "round": 0, "rounds": 40} | described))


def written(path: Path, *evaluations, settings=SETTINGS, **described) -> Path:
    """A run that has ended, without a report."""
    with RunFolder(path) as files:
        begin(files, settings)
        for evaluation in evaluations or (rows(20), rows(40)):
            files.append(evaluation)
        files.sync()
        files.status(**({"status": "finished", "message": "", "round": 40, "rounds": 40} | described))
    return path


def everything(root: Path) -> dict:
    """All that lies in a folder: what it is, when it was written, what is in it."""
    found = {}
    for path in sorted(root.rglob("*")):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = path.lstat().st_mtime_ns, path.lstat().st_mode, content
    return found


class Asking:
    """Asks a server as a browser does that was given an address: by its cookie, once it has one."""

    def __init__(self, address: str) -> None:
        self.place = urlsplit(address)
        self.cookie = ""

    def enter(self):
        answer, _ = self.get(f"{self.place.path}?{self.place.query}")
        self.cookie = answer.getheader("Set-Cookie", "").partition(";")[0]
        return answer

    def get(self, path, host=None, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.place.port, timeout=300)
        connection.putrequest(method, path, skip_host=True)
        for name, value in ({"Host": host or self.place.netloc, "Cookie": self.cookie} | headers).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text
