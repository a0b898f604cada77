"""``dirtybus call``: one call from the shell. Owns how its result and its chunks are written."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from dirtybus.cli.arguments import Arguments, read_arguments
from dirtybus.cli.complaint import complaining
from dirtybus.cli.human_form import human_form
from dirtybus.cli.json_form import json_text
from dirtybus.cli.options import json_option, reach, reaching, span_option
from dirtybus.cli.progress import ProgressLine
from dirtybus.client import DirtyClient
from dirtybus.protocol.heads import Progress

__all__ = ["call"]


@click.command()
@click.argument("app")
@click.argument("action")
@click.argument("words", nargs=-1, metavar="[VALUE]... [KEY=VALUE]...")
@click.option("--args", "given", metavar="JSON", help="More arguments: an array or an object.")
@click.option("--stream", is_flag=True, help="Write each value as the action yields it; with --json, one a line.")
@span_option("--timeout", "timeout_s", help="Its deadline, such as 30s or 5m; 0: none. [the app's own]")
@reaching
@json_option
def call(  # noqa: PLR0913 - one argument for each thing that can be typed
    app: str,
    action: str,
    words: tuple[str, ...],
    *,
    given: str | None,
    stream: bool,
    timeout_s: float | None,
    socket: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Run ACTION of APP (module:Class) in a running instance and write what it returns.

    A value that is JSON is taken as such, any other as text; @FILE stands for the file's bytes, @- for stdin.
    Options end at --, so that values may begin with a dash.
    """
    with complaining(as_json=as_json):
        arguments = read_arguments(words, given, _read_file)
        line = _progress_line()
        with reach(socket, name) as client, closing(_Caller(client, app, action, arguments, timeout_s, line)) as caller:
            if stream:
                caller.write_chunks(as_json=as_json)
            else:
                caller.write_result(as_json=as_json)


class _Caller:
    """One call and where its words go."""

    def __init__(
        self,
        client: DirtyClient,
        app: str,
        action: str,
        arguments: Arguments,
        timeout_s: float | None,
        line: ProgressLine | None,
    ) -> None:
        self._client = client
        self._call = (app, action, arguments.args, arguments.kwargs)
        self._timeout_s = timeout_s
        self._line = line

    def write_result(self, *, as_json: bool) -> None:
        value = self._client.request(*self._call, timeout_s=self._timeout_s, on_progress=self._show)
        self.close()
        if as_json:
            click.echo(json_text(value))
        else:
            _write(value, end="\n")

    def write_chunks(self, *, as_json: bool) -> None:
        last: Any = "\n"
        chunks = self._client.request_stream(*self._call, timeout_s=self._timeout_s, on_progress=self._show)
        for chunk in chunks:
            self.close()
            last = chunk
            if as_json:
                click.echo(json_text(chunk))
            else:
                # pieces of text belong together, other values stand for themselves
                _write(chunk, end="" if isinstance(chunk, str) else "\n")
        if not as_json and isinstance(last, str) and not last.endswith("\n"):
            click.echo()

    def close(self) -> None:
        """Take the progress off the screen. May be called twice."""
        if self._line is not None:
            self._line.clear()

    def _show(self, report: Progress) -> None:
        if self._line is not None:
            self._line.show(report)


def _write(value: object, *, end: str) -> None:
    if isinstance(value, bytes | bytearray) and not sys.stdout.isatty():
        click.echo(bytes(value), nl=False)
        return
    text = human_form(value, width=shutil.get_terminal_size().columns)
    encoding = sys.stdout.encoding or "utf-8"
    # a value may hold characters that the terminal cannot show; that is no reason to lose it
    shown = text.encode(encoding, "backslashreplace").decode(encoding)
    click.echo(shown if shown.endswith("\n") else shown + end, nl=False)
    sys.stdout.flush()


def _read_file(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


def _progress_line() -> ProgressLine | None:
    return ProgressLine(sys.stderr, shutil.get_terminal_size().columns) if sys.stderr.isatty() else None
