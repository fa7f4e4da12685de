"""Runs commands of `bpe` in copies of one process, which takes a twentieth of the time of starting each.

`CommandServer` starts a process that has imported the package and listens at a socket. `write_client` writes a
program for shells to run as `bpe`: it passes its arguments, its environment, its working directory and its three
standard streams to the server, which forks; the child runs the command with them, and the program ends with its status.

    with CommandServer(folder / "socket") as server:
        server.write_client(folder / "bin" / "bpe")

`run` does without a shell and such a program, which take longer than most commands.

The tests of the command as a process of its own start one (`cli/test_cli_status.py`).
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

#: What the program runs. Without `site`, Python starts in 15 ms.
CLIENT = """#!{python} -ISE
import json, os, socket, sys
said = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    socket.send_fds(server, [b"%9d" % len(said)], [0, 1, 2])
    server.sendall(said)
    sys.exit(int(server.recv(9) or 1))
"""


class CommandServer:
    """A process that runs commands, and ends with the `with` block."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> CommandServer:  # noqa: PYI034 (typing.Self is new in Python 3.11)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"listening\n"
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()  # closes its standard input, at whose end it ends

    def write_client(self, path: Path) -> None:
        """Write the program `bpe`."""
        path.write_text(CLIENT.format(python=sys.executable, path=str(self.path)))
        path.chmod(0o755)

    def run(self, arguments: list[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
        """Run a command with nothing to read: its status, and what it printed on both streams."""
        request = json.dumps([arguments, str(folder), dict(environment)]).encode()
        with tempfile.TemporaryFile() as printed, open(os.devnull) as nothing, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self.path))
            socket.send_fds(server, [b"%9d" % len(request)], [nothing.fileno(), printed.fileno(), printed.fileno()])
            server.sendall(request)
            status = int(server.recv(9) or 1)
            printed.seek(0)
            return status, printed.read().decode()


def load_rooms() -> None:
    """Import what commands import at their first use, 0.2 to 0.4 s of each child process otherwise."""
    import bpe

    for module in pkgutil.walk_packages(bpe.__path__, "bpe."):
        if not module.name.startswith(("bpe.compat", "bpe.distributed", "bpe.serving", "bpe.data.loaders.torch")):
            with suppress(ImportError):  # of packages that are not installed
                importlib.import_module(module.name)


def serve(path: str) -> None:
    """Listen at a socket, and run each command in a child process."""
    import bpe.cli

    load_rooms()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        os.write(1, b"listening\n")
        while True:
            if 0 in select.select([listener, 0], [], [])[0]:
                return
            connection, _ = listener.accept()
            size, streams, _, _ = socket.recv_fds(connection, 9, 3)
            request = connection.makefile("rb").read(int(size))
            if os.fork() == 0:
                listener.close()
                status = 1
                try:
                    status = run(bpe.cli.main, streams, *json.loads(request))
                finally:
                    connection.sendall(b"%d" % status)
                    os._exit(status)
            connection.close()
            for stream in streams:
                os.close(stream)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:  # children that have ended
                    pass


def run(main: Any, streams: list[int], arguments: list[str], folder: str, environment: dict[str, str]) -> int:
    """Run a command with other streams, in another folder and environment; its status."""
    for index, stream in enumerate(streams):
        os.dup2(stream, index)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["bpe", *arguments]
    try:
        status: int = main(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return status


if __name__ == "__main__":
    serve(sys.argv[1])
