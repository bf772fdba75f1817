"""The server of `hush view`: a few addresses, on this machine alone."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from hush.report.markup import STYLE
from hush.view.guard import Guard, Keys
from hush.view.listing import SORTS, Asked, list_page, message, row
from hush.view.made import Pages
from hush.view.shelf import Shelf

HOST = "127.0.0.1"
MOST_COMPARED = 50
HERE = Path(__file__).parent
# The viewer's own pages have one script and one sheet of styles; reports have theirs inside, and belong to no site.
OWN = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
FOREIGN = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Viewer:
    """Answers to what a browser asks about the runs of one folder."""

    def __init__(self, root: Path) -> None:
        self.shelf, self.pages = Shelf(root), Pages()

    def app(self, keys: Keys) -> Starlette:
        """All addresses there are. None of them is the path of a file."""
        routes = [
            Route("/", self.runs),
            Route("/changes", self.changes),
            Route("/run/{key}", self.report),
            Route("/compare", self.comparison),
            Route("/page.css", lambda _: Response(STYLE + _own("page.css"), media_type="text/css")),
            Route("/page.js", lambda _: Response(_own("page.js"), media_type="text/javascript")),
            Route("/favicon.ico", lambda _: Response(status_code=204)),
        ]
        return Starlette(routes=routes, middleware=[Middleware(Guard, keys=keys)])

    def runs(self, request: Request) -> Response:
        """The list."""
        asked = request.query_params
        sort = asked.get("sort", "")
        how = Asked(asked.get("q", ""), sort if sort in SORTS else Asked().sort, asked.get("turned") == "1")
        return _own_page(list_page(self.shelf.look(), how, self.shelf.root))

    def changes(self, request: Request) -> Response:
        """What is different since a version of the list."""
        look = self.shelf.look()
        since = request.query_params.get("since", "")
        after = int(since) if since.isdecimal() and int(since) <= look.version else -1
        rows = {key: row(key, run.entry) for key, run in look.runs.items() if run.version > after}
        gone = [key for key, version in look.gone.items() if version > after]
        return JSONResponse({"version": look.version, "rows": rows, "gone": gone, "unread": look.unread})

    def report(self, request: Request) -> Response:
        """The report of one run."""
        run = self.shelf.look().runs.get(request.path_params["key"])
        if run is None:
            return _own_page(message("No such run", "bad", "There is no such run here, or no longer."), 404)
        return _foreign(run.entry.name, lambda: self.pages.report(run))

    def comparison(self, request: Request) -> Response:
        """Several runs side by side."""
        look, keys = self.shelf.look(), list(dict.fromkeys(request.query_params.getlist("run")))
        runs = [look.runs[key] for key in keys if key in look.runs]
        if not 2 <= len(runs) <= MOST_COMPARED:
            said = f"A comparison takes from two to {MOST_COMPARED} runs, found {len(runs)}: select them in the list."
            return _own_page(message("Compare runs", "fair", said), 422)
        return _foreign("Compare runs", lambda: self.pages.comparison(runs))


def _own(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _own_page(text: str, status: int = 200) -> Response:
    # A folder's name need not be text at all.
    return HTMLResponse(text.encode("utf-8", "replace"), status, headers={"Content-Security-Policy": OWN})


def _foreign(title: str, make: Callable[[], bytes]) -> Response:
    """A page that is made of a run's files, or the reason why it cannot be."""
    try:
        return HTMLResponse(make(), headers={"Content-Security-Policy": FOREIGN})
    except Exception as error:  # a damaged folder fails in many ways, and is no reason for the list to end
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        return _own_page(message(title, "bad", f"This cannot be shown: {reason}"), 422)


@contextlib.contextmanager
def serving(root: Path, port: int = 0) -> Iterator[Keys]:
    """Serve a folder of runs for as long as the `with` lasts; port 0 is any that is free."""
    viewer = Viewer(root)
    with contextlib.closing(_listening(port)) as listening:
        keys = Keys(listening.getsockname()[1])
        config = uvicorn.Config(viewer.app(keys), lifespan="off", log_level="error", access_log=False, ws="none")
        config.timeout_graceful_shutdown = 1
        server = uvicorn.Server(config)
        # A thread of its own hears no signals: those are the command's.
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="hush-view", daemon=True)
        thread.start()
        try:
            yield keys
        finally:
            server.should_exit = True
            thread.join()


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise ValueError(
            f"port {port} of {HOST} cannot be used: {error.strerror}; choose another with --port"
        ) from error
