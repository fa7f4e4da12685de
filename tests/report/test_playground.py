"""The playground's server: what it answers, and what it refuses."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from serving import serve_playground

import bpe
from bpe.report import Playground, playground
from bpe.report.playground import MAX_BODY_BYTES, TOKEN_HEADER

TOKENIZER = bpe.train(texts=["low lower lowest 한국어"] * 3, vocab_size=270)


@pytest.fixture(scope="module")
def server() -> Iterator[Playground]:
    with serve_playground({"one": TOKENIZER, "<two>": TOKENIZER}) as server:
        yield server


def ask(server, method="GET", path="/", body=None, headers=(), host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    for name, value in [("Host", host or f"127.0.0.1:{server.server_port}"), *headers]:
        if value is not None:
            connection.putheader(name, value)
    if body is not None and "Content-Length" not in dict(headers):
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    data = answer.read().decode()
    connection.close()
    return answer, data


def post(server, body, headers=()):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers_by_name = dict([("Content-Type", "application/json"), (TOKEN_HEADER, server.page_token), *headers])
    return ask(server, "POST", "/tokens", data, list(headers_by_name.items()))


def test_page_without_javascript(server):
    answer, page = ask(server, path="/?text=lowest+%3Cb%3E%0D%0A%ED%95%9C")
    assert answer.status == 200
    assert "\nlowest &lt;b&gt;\n한</textarea>" in page
    assert page.count('class="bpe-tokens"') >= 2
    assert "&lt;two&gt;" in page
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert ask(server, "HEAD")[1] == ""


def test_tokens_of_a_text(server):
    answer, body = post(server, {"text": "lowest 한국어 <script>"})
    values = json.loads(body)
    assert answer.status == 200
    assert values["html"].count('<div class="panel">') == 2
    assert "<script" not in values["html"]
    ids = {str(token_id) for token_id in TOKENIZER.encode("lowest 한국어 <script>").tolist()}
    assert ids <= set(values["data"]["0"])


@pytest.mark.parametrize("text", ["", "\ud800", "\x00", "a" * 100_000])
def test_unusual_texts(server, text):
    assert post(server, {"text": text})[0].status == 200


@pytest.mark.parametrize(
    "host",
    ["example.org", "127.0.0.1", "127.0.0.1:1", "localhost.example.org:{port}", "example.org:{port}", "[::1", ""],
)
def test_requests_for_another_host_are_refused(server, host):
    answer, body = ask(server, host=host.format(port=server.server_port) or " ")
    assert answer.status == 421
    assert "another server" in body


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "LOCALHOST:{port}"])
def test_own_names_are_served(server, host):
    assert ask(server, host=host.format(port=server.server_port))[0].status == 200


def test_requests_from_other_sites_are_refused(server):
    for origin in ("https://example.org", "null", f"https://127.0.0.1:{server.server_port}"):
        assert post(server, {"text": "a"}, [("Origin", origin)])[0].status == 403
    assert post(server, {"text": "a"}, [("Origin", f"http://127.0.0.1:{server.server_port}")])[0].status == 200
    assert post(server, {"text": "a"}, [("Content-Type", "text/plain")])[0].status == 415


@pytest.mark.parametrize("token", [None, "", "x", "é"])
def test_requests_without_the_token_of_the_page_are_refused(server, token):
    answer, body = post(server, {"text": "a"}, [(TOKEN_HEADER, token)])
    assert answer.status == 403
    assert "reload" in body
    assert f'data-token="{server.page_token}"' in ask(server)[1]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b'{"text": 3}', 400),
        (b'{"text": null}', 400),
        (b"[" * 100_000, 400),
        (b'{"text": "\xff"}', 400),
        ({"other": "a"}, 400),
    ],
)
def test_bad_bodies(server, body, status):
    assert post(server, body)[0].status == status


@pytest.mark.parametrize(
    ("length", "status"),
    [(str(MAX_BODY_BYTES + 1), 413), ("9" * 30, 413), ("-1", 411), ("x", 411), ("²", 411), ("", 411)],
)
def test_lengths(server, length, status):
    headers = [
        ("Content-Type", "application/json"), (TOKEN_HEADER, server.page_token), ("Content-Length", length.encode()),
    ]  # fmt: skip
    assert ask(server, "POST", "/tokens", None, headers)[0].status == status


def send_raw(server, *parts, pause=0.0):
    """What the server answers to bytes, and b"" where it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        with suppress(ConnectionError):
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
        response = b""
        with suppress(ConnectionError):
            while data := connection.recv(1 << 16):
                response += data
        return response


@pytest.mark.parametrize("path", ["http://[/", "//[", "http://[::1", "//[x]/", "http://]/?text=a"])
def test_bad_addresses(server, path, capfd):
    host = f"Host: 127.0.0.1:{server.server_port}".encode()
    response = send_raw(server, b"GET %b HTTP/1.1\r\n%b\r\nConnection: close\r\n\r\n" % (path.encode(), host))
    assert response.split(b" ", 2)[1] in (b"400", b"404")
    assert capfd.readouterr().err == ""


def test_large_headers_are_refused(server):
    line = b"X: " + b"a" * 60_000 + b"\r\n"
    assert send_raw(server, b"GET / HTTP/1.1\r\n", line, line, line).split(b" ", 2)[1] == b"431"
    assert b"414" in send_raw(server, b"GET /?text=" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n").split(b"\r\n")[0]


def test_requests_that_trickle_are_closed(server, monkeypatch, capfd):
    """A part arrives often, but the whole takes too long."""
    monkeypatch.setattr(playground, "_TIMEOUT_SECONDS", 0.3)
    head = f"Host: 127.0.0.1:{server.server_port}\r\nContent-Type: application/json\r\nContent-Length: 20\r\n"
    head += f"{TOKEN_HEADER}: {server.page_token}\r\n\r\n"
    for beginning, trickle in (
        (b"GET / HTTP/1.1\r\n", b"X-A: 1\r\n"),
        (f"POST /tokens HTTP/1.1\r\n{head}".encode(), b" "),
    ):
        assert send_raw(server, beginning, *[trickle] * 12, pause=0.05) == b""
    monkeypatch.undo()
    assert ask(server)[0].status == 200
    assert capfd.readouterr().err == ""


def test_only_the_page_is_served(server):
    for path in ("/x", "/../etc/passwd", "//etc/passwd", "/tokens", "/page.css"):
        assert ask(server, path=path)[0].status == 404
    assert ask(server, "PUT", "/")[0].status == 501


def test_other_addresses_need_a_flag():
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org"):
        with pytest.raises(ValueError, match="which other machines may reach"):
            Playground(TOKENIZER, host, 0)
    with Playground(TOKENIZER, "0.0.0.0", 0, network=True) as server:
        port = server.server_port
        assert server.is_own_host(f"192.168.0.7:{port}")
        assert server.is_own_host(f"127.0.0.1:{port}")
        assert not server.is_own_host(f"example.org:{port}")
    with Playground(TOKENIZER, port=0) as server:
        assert not server.is_own_host(f"192.168.0.7:{server.server_port}")
        assert server.url == f"http://127.0.0.1:{server.server_port}/"
