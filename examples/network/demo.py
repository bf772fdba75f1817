"""A server and five devices on this machine, each a process of its own, over TLS; then the same as a simulation.

`make demo-network` runs it. It is a rehearsal: all randomness comes from the settings' seed, so that the two can be
laid side by side, number by number.
"""

import contextlib
import json
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SETTINGS = HERE / "settings.toml"
OUT = Path("runs/demo-network")
HUSH = [sys.executable, "-m", "hush.app.start"]
DEVICES = 5


def hush(*words: object) -> None:
    """One command, to its end."""
    print("$ hush", *words, flush=True)
    subprocess.run([*HUSH, *map(str, words)], check=True)


def start(name: str, *words: object) -> subprocess.Popen[bytes]:
    """One command in the background, its words in a file."""
    print("$ hush", *words, "&", flush=True)
    log = (OUT / f"{name}.log").open("wb")
    return subprocess.Popen([*HUSH, *map(str, words)], stdout=log, stderr=subprocess.STDOUT)


def quiet_port() -> int:
    """One that nobody listens at, and that no outgoing connection is given: those come from 32768 on."""
    while True:
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", random.randrange(20000, 32000)))
            return int(found.getsockname()[1])


def federation() -> None:
    """Enrol, serve, join five times, and wait for the end."""
    enrolment, address = OUT / "enrolment", f"127.0.0.1:{quiet_port()}"
    hush("enrol", enrolment, "--devices", DEVICES, "--host", "127.0.0.1")
    folder = ("--folder", OUT / "network", "--credential", enrolment / "server")
    server = start("server", "serve", SETTINGS, *folder, "--listen", address, "--rehearse")
    joined = [
        start(
            f"device-{number}",
            *("join", "--server", address, "--credential", enrolment / "devices" / f"device-{number}.pem"),
            *("--data", "task", "--state", OUT / "states" / str(number), "--rehearse", "--patience", 120),
            *("--agree", agreement()),
        )
        for number in range(DEVICES)
    ]
    processes = [server, *joined]
    try:
        while server.poll() is None:
            time.sleep(0.2)
            if any(device.poll() for device in joined):
                raise SystemExit(f"a device ended: see {OUT}/device-*.log")
        for device in joined:
            device.wait(30)
    finally:
        for process in processes:
            process.kill()
    if server.returncode:
        raise SystemExit(f"the server ended: see {OUT}/server.log")


def agreement() -> str:
    """The digest that an owner would have been shown."""
    from hush.network import agree
    from hush.settings import build, read

    made = build(read(SETTINGS))
    return agree(made.algorithm, made.problem(), made.run, rehearsal=True, task=made.task).name


def compare() -> None:
    """The two side by side: what they sent, and how far apart their models are."""
    network, simulation = (dict(np.load(OUT / name / "model.npz")) for name in ("network", "simulation"))
    apart = float(np.abs(network["vector"] - simulation["vector"]).max())
    ledgers = [dict(np.load(OUT / name / "checkpoint.npz")) for name in ("network", "simulation")]
    sent, simulated = (ledger["ledger/client_uplink_bits"].ravel().tolist() for ledger in ledgers)
    events = [json.loads(line) for line in (OUT / "network" / "journal.jsonl").read_text().splitlines()]
    heard = [event for event in events if event["event"] == "heard"]
    print(f"bits each device sent, over the network: {sent}")
    print(f"bits each client sent, in the simulation: {simulated}")
    print(f"bytes of one answer: {heard[0]['bytes']:,}, of which {heard[0]['bits'] // 8:,} are the code")
    print(f"the two models are at most {apart:.1e} apart, of numbers up to {np.abs(simulation['vector']).max():.2f}")


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    federation()
    hush("devices", OUT / "network")
    hush("run", SETTINGS, "--out", OUT / "simulation", "--quiet")
    hush("compare", OUT / "network", OUT / "simulation", "--out", OUT / "comparison")
    compare()


if __name__ == "__main__":
    main()
