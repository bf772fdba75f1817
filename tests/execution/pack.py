"""Real processes for tests: started with a limit on their time, and never left behind."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 600  # seconds: no verdict, only an end to what hangs


def free_port():
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


class Pack:
    """Processes and the files that they write to; `with Pack(folder) as pack:` ends whoever is left."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def begin(self, *command, devices=1, folder=None, **environment):
        """Start python with a command; what it says goes to a file."""
        path = self.said_by(len(self.processes))
        settings = os.environ | {"JAX_NUM_CPU_DEVICES": str(devices), "PYTHONPATH": str(ROOT / "src")} | environment
        with path.open("wb") as file:
            words = [sys.executable, *map(str, command)]
            process = subprocess.Popen(words, stdout=file, stderr=file, env=settings, cwd=folder)
        self.processes.append(process)
        return process

    def together(self, count, *command, **how):
        """Start so many processes, each told who it is by its last three words."""
        address = f"127.0.0.1:{free_port()}"
        return [self.begin(*command, address, index, count, **how) for index in range(count)]

    def hush(self, *words, **how):
        """Start a command of the command line."""
        return self.begin("-m", "hush.app.start", *words, **how)

    def said_by(self, index):
        return self.folder / f"said-{index}.txt"

    def said(self):
        """All that was said, for an error."""
        return "\n".join(f"--- {index}\n{self.said_by(index).read_text()}" for index in range(len(self.processes)))

    def codes(self):
        """The exit codes, once all have ended."""
        until = time.monotonic() + PATIENCE
        return [process.wait(max(0, until - time.monotonic())) for process in self.processes]

    def until(self, true, what):
        """Wait for something that the processes bring about."""
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, f"{what} did not come\n{self.said()}"
            time.sleep(0.05)
