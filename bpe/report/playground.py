"""The playground: the report's page with a text box, on this machine, for several tokenizers side by side.

A page in a browser may send requests to any address that the browser reaches, so the server checks each: the `Host`
header must name this server (against DNS rebinding), the `Origin` header, if there is one, must be its own, a POST must
have the token that only the page has, the headers have at most 128 kB and a body 1 MB, and a request that has not
arrived after 10 seconds is closed, as is a browser that takes longer to read the answer. Answers carry the page's
security policy.

    GET /         the page; `?text=…` fills the box, for browsers without JavaScript
    POST /tokens  {"text": …} → {"html": panels, "data": details of their tokens}
"""

from __future__ import annotations

import io
import ipaddress
import json
import secrets
import sys
import time
from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, AddressFamily, gethostname, socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bpe._version import __version__
from bpe.errors import check_str
from bpe.report.page import fill_frame, make_policy
from bpe.report.panels import Panels
from bpe.report.tokenizers import ReportedTokenizer, Tokenizers, name_tokenizers

#: The largest body of a request, in bytes.
MAX_BODY_BYTES = 1 << 20
#: The most bytes of a request's first line and headers.
MAX_HEADER_BYTES = 1 << 17
#: How many bytes of the text are drawn; all are counted.
_MAX_DRAWN_BYTES = 10_000
_TIMEOUT_SECONDS = 10
#: The header with the page's token.
TOKEN_HEADER = "X-Page-Token"
_TITLE = "Tokenizer playground"
_SAMPLE = "Type here: 자주 함께 나타나는 글자, 夜行列車の窓, السوق, 👩‍💻 and the merge."


class Playground(ThreadingHTTPServer):
    """A server that shows a text in several tokenizers while it is typed; `serve_forever` runs it.

    Args:
        tokenizers: one, a list of them, or several by name: all that `bpe.evaluate` takes.
        host: the address to listen on.
        port: the port; 0 for any that is free.
        network: whether `host` may be an address that other machines reach.

    Raises:
        ValueError: for a host that other machines reach, unless `network` is set.
        OSError: if the address cannot be used.

    >>> import bpe
    >>> tok = bpe.train(texts=["low lower"], vocab_size=258)
    >>> Playground(tok, "0.0.0.0", 0)
    Traceback (most recent call last):
    ValueError: host is '0.0.0.0', which other machines may reach; it must be a loopback address such as 127.0.0.1, or \
pass network=True

    """

    daemon_threads = True

    def __init__(
        self, tokenizers: Tokenizers, host: str = "127.0.0.1", port: int = 8000, *, network: bool = False
    ) -> None:
        if not network and not _is_loopback(check_str("host", host)):
            raise ValueError(
                f"host is {host!r}, which other machines may reach; it must be a loopback address such as 127.0.0.1, "
                "or pass network=True"
            )
        self.tokenizers: Mapping[str, ReportedTokenizer] = name_tokenizers(tokenizers)
        self.network = network
        self.host = host
        self.page_token = secrets.token_urlsafe(16)
        self.address_family: AddressFamily = AF_INET6 if ":" in host else AF_INET
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """Where the page is."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that leaves before its answer; report anything else on stderr."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    def is_own_host(self, host: str) -> bool:
        """Return whether a request's `Host` header names this server.

        On the loopback address that is its own names. For a server on the network it may be any IP address too, since
        DNS rebinding needs a name.
        """
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port
        except ValueError:
            return False
        if port != self.server_port and not (port is None and self.server_port == 80):
            return False
        if _is_loopback(name) or name == self.host.lower():
            return True
        return self.network and (name == gethostname().lower() or _is_address(name))

    def draw_panels(self, text: str) -> tuple[str, dict[str, Any]]:
        """Draw the panels of a text as HTML, with the details of their tokens."""
        panels = Panels(self.tokenizers)
        html = panels.draw([text.encode("utf-8", "replace")], max_bytes=_MAX_DRAWN_BYTES)
        return html, panels.describe_tokens()

    def make_page(self, text: str) -> str:
        """Make the whole page, with a text in its box."""
        html, details = self.draw_panels(text)
        body = (
            f'<form id="play" method="get" action="/" data-token="{self.page_token}"><label for="text">Text</label>'
            f'<textarea id="text" name="text" dir="auto" spellcheck="false">\n{escape(text)}</textarea>'
            '<p><button type="submit">Show the tokens</button></p></form>'
            f'<section aria-labelledby="tokens"><h2 id="tokens">Tokens</h2><div id="panels">{html}</div></section>'
        )
        return fill_frame(_TITLE, body, details, connect=True)


class _TooLargeError(Exception):
    """A request with larger headers than are read."""


class _RequestStream(io.RawIOBase):
    """What a client sends: TimeoutError when a request takes too long, however often a part of it arrives."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self.begin()

    def begin(self) -> None:
        """Begin a request."""
        self._deadline, self.bytes_left = time.monotonic() + _TIMEOUT_SECONDS, MAX_HEADER_BYTES

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Receive bytes."""
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError(f"the request took more than {_TIMEOUT_SECONDS} seconds")
        if self.bytes_left <= 0:
            raise _TooLargeError
        self._connection.settimeout(seconds)
        count = self._connection.recv_into(buffer)
        self.bytes_left -= count
        return count


class _Handler(BaseHTTPRequestHandler):
    server: Playground
    server_version = f"bpe/{__version__}"
    sys_version = ""
    timeout = _TIMEOUT_SECONDS

    def setup(self) -> None:
        """Open the connection's streams."""
        super().setup()
        self._request_stream = _RequestStream(self.connection)
        self.rfile = io.BufferedReader(self._request_stream)

    def handle_one_request(self) -> None:
        """Read a request, and answer it."""
        self._request_stream.begin()
        try:
            super().handle_one_request()
        except _TooLargeError:
            self.command, self.requestline, self.request_version = "", "", self.protocol_version
            self._fail(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the headers have more than {MAX_HEADER_BYTES:,} bytes"
            )

    def do_GET(self) -> None:
        """Answer with the page."""
        if self._refuse_foreign():
            return
        try:
            parts = urlsplit(self.path)
        except ValueError:
            self._fail(HTTPStatus.BAD_REQUEST, "the address is not valid")
            return
        if parts.path != "/":
            self._fail(HTTPStatus.NOT_FOUND, "there is only the page itself, /")
            return
        text = parse_qs(parts.query, keep_blank_values=True).get("text", [_SAMPLE])[0]
        self._answer(HTTPStatus.OK, self.server.make_page(text.replace("\r\n", "\n")), "text/html")

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        """Answer with the tokens of a text."""
        if self._refuse_foreign():
            return
        if self.path != "/tokens":
            self._fail(HTTPStatus.NOT_FOUND, "texts go to /tokens")
            return
        token = self.headers.get(TOKEN_HEADER, "")
        if not secrets.compare_digest(token.encode("utf-8", "replace"), self.server.page_token.encode()):
            self._fail(HTTPStatus.FORBIDDEN, "the page is of another run of the playground; reload it")
            return
        if self.headers.get_content_type() != "application/json":
            self._fail(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self._fail(HTTPStatus.LENGTH_REQUIRED, "the request needs a Content-Length")
            return
        if len(length) > 9 or int(length) > MAX_BODY_BYTES:
            self._fail(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the text is too long; at most {MAX_BODY_BYTES:,} bytes")
            return
        self._request_stream.bytes_left = MAX_BODY_BYTES
        try:
            text = json.loads(self.rfile.read(int(length)))["text"]
            html, details = self.server.draw_panels(text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._fail(HTTPStatus.BAD_REQUEST, 'the body must be {"text": a string}')
            return
        self._answer(HTTPStatus.OK, json.dumps({"html": html, "data": details}), "application/json")

    def _refuse_foreign(self) -> bool:
        """Refuse a request for another server, or from another site's page; return whether it was refused."""
        hosts = self.headers.get_all("Host", [])
        origin = self.headers.get("Origin")
        if len(hosts) != 1 or not self.server.is_own_host(hosts[0]):
            self._fail(HTTPStatus.MISDIRECTED_REQUEST, "the Host header names another server")
            return True
        if origin is not None and origin.lower() != f"http://{hosts[0].lower()}":
            self._fail(HTTPStatus.FORBIDDEN, "the request comes from the page of another site")
            return True
        return False

    def _fail(self, status: HTTPStatus, reason: str) -> None:
        self.close_connection = True
        self._answer(status, json.dumps({"error": reason}), "application/json")

    def _answer(self, status: HTTPStatus, body: str, content_type: str) -> None:
        data = body.encode()
        self.connection.settimeout(_TIMEOUT_SECONDS)  # for the whole answer
        self.send_response(status)
        self.send_header("Content-Type", f"{content_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", f"{make_policy(connect=True)}; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing: texts are nobody's business."""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    """Return whether a host is this machine, by a name or an address that no other machine reaches.

    >>> [_is_loopback(name) for name in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)
