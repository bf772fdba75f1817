"""Who may look: whoever has the token, from this machine, by one of its own two names.

Every program on this machine can reach the port, and so can every page in the browser. A page elsewhere whose name was
made to lead to this machine says its own name in the header `Host`; the cookie goes along with nothing that another
site has asked for.
"""

import hmac
import secrets

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# For every answer. A report may come from somebody else's run: it is shown as from no site at all, so that whatever it
# may hold can neither read the other pages nor ask for them.
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
REFUSED = "This page needs the address that hush view has printed, with its token.\n"


class Keys:
    """A token for the address that is printed, and one that opens the browser once.

    What a browser is started with can be seen by everybody on the machine, for as long as it runs.
    """

    def __init__(self, port: int) -> None:
        self.token, self._once = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.cookie = f"hush-view-{port}"  # cookies know no ports
        self.address = f"http://127.0.0.1:{port}/?token={self.token}"
        self.address_once = f"http://127.0.0.1:{port}/?once={self._once}"

    def open(self, query: QueryParams) -> bool:
        """Whether an address lets in whoever has it."""
        if _same(query.get("once", ""), self._once):
            self._once = ""
            return True
        return _same(query.get("token", ""), self.token)

    def known(self, header: str) -> bool:
        """Whether it is somebody who was let in before."""
        # By Starlette's own reader: the standard library's gives up at a cookie of others that is not quite one.
        return _same(cookie_parser(header).get(self.cookie, ""), self.token)


def _same(given: str, wanted: str) -> bool:
    return wanted != "" and hmac.compare_digest(given.encode(), wanted.encode())


class Guard:
    """Lets through what may be answered."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app, self._keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self._keys.hosts:
            await PlainTextResponse("This name is not one of hush view's own.\n", 403)(scope, receive, send)
            return
        opened = self._keys.open(QueryParams(scope["query_string"]))
        if not opened and not self._keys.known(headers.get("cookie", "")):
            await PlainTextResponse(REFUSED, 403)(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = MutableHeaders(raw=message["headers"])
                said.update(HEADERS)
                if opened:
                    cookie = f"{self._keys.cookie}={self._keys.token}; Path=/; HttpOnly; SameSite=Strict"
                    said.append("Set-Cookie", cookie)
            await send(message)

        await self._app(scope, receive, guarded)
