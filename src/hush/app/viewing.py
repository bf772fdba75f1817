"""Serving a folder of runs until Ctrl-C."""

import signal
import threading
import webbrowser
from pathlib import Path

from hush.stopping import StopRequested, listening
from hush.view.server import serving


def view(folder: Path, port: int, browser: bool) -> None:
    """Serve, say where, and wait to be stopped: by Ctrl-C that is the end that was meant, and no failure."""
    with listening() as stopping:
        stopping.spoken = False
        try:
            with serving(folder, port) as keys:
                print(f"{keys.address}\nCtrl-C ends it", flush=True)
                if browser:
                    threading.Thread(target=webbrowser.open, args=(keys.address_once,), daemon=True).start()
                threading.Event().wait()
        except KeyboardInterrupt as request:
            if isinstance(request, StopRequested) and request.signal != signal.SIGINT:
                raise
