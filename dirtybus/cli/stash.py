"""``dirtybus stash``: look into the shared tables of a running instance, and change them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, Any

import click

from dirtybus.cli.arguments import read_value
from dirtybus.cli.complaint import complaining
from dirtybus.cli.human_form import human_form
from dirtybus.cli.json_form import json_text
from dirtybus.cli.options import json_option, reach, reaching
from dirtybus.errors import StashKeyNotFoundError
from dirtybus.stash import ABSENT

__all__ = ["stash"]

_INFO = ("name", "size", "memory_bytes", "expired", "evicted", "durability", "on_full", "max_entries", "max_bytes")


@click.group()
def stash() -> None:
    """Look into the shared tables, and change them.

    A KEY or VALUE is JSON where it parses (1, true, null, [1, 2]) and text where not; '"1"' is the text 1.
    """


@stash.command()
@reaching
@json_option
def tables(*, socket: str | None, name: str | None, as_json: bool) -> None:
    """List the tables, with their sizes and rules. In a pipe they are tab-separated."""
    with complaining(as_json=as_json), reach(socket, name) as client:
        infos = [client.stash.info(table) for table in client.stash.tables()]
        if as_json:
            click.echo(json_text(infos))
            return
        click.echo("\t".join(("#" + _INFO[0], *_INFO[1:])))
        for info in infos:
            click.echo("\t".join("" if info[field] is None else str(info[field]) for field in _INFO))


@stash.command()
@click.argument("table")
@click.option("--pattern", help="Only text keys that match, such as 'user:*'.")
@reaching
@json_option
def keys(table: str, *, pattern: str | None, socket: str | None, name: str | None, as_json: bool) -> None:
    """Write the keys of TABLE, one on each line."""
    with complaining(as_json=as_json), reach(socket, name) as client:
        client.stash.info(table)  # a misspelt table is not an empty one
        for key in client.stash.keys(table, pattern):
            click.echo(json_text(key) if as_json else human_form(key))


@stash.command()
@click.argument("table")
@click.argument("key")
@reaching
@json_option
def get(table: str, key: str, *, socket: str | None, name: str | None, as_json: bool) -> None:
    """Write the value under KEY. Ends with 1 when there is none."""
    with complaining(as_json=as_json), reach(socket, name) as client:
        found = read_value(key, _read_file)
        value = client.stash.get(table, found, ABSENT)
        if value is ABSENT:
            raise StashKeyNotFoundError(table, found)
        _write(value, as_json=as_json)


@stash.command()
@click.argument("table")
@click.argument("key")
@click.argument("value")
@click.option("--expires-in", metavar="DURATION", help="How long it stays, such as 30m. [what the table says]")
@reaching
@json_option
def put(
    table: str,
    key: str,
    value: str,
    *,
    expires_in: str | None,
    socket: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Store VALUE under KEY; @FILE stands for the bytes of a file."""
    with complaining(as_json=as_json), reach(socket, name) as client:
        stored = read_value(value, _read_file)
        version = client.stash.put(table, read_value(key, _read_file), stored, expires_in=expires_in)
        click.echo(json_text({"version": version}) if as_json else f"version {version}")


@stash.command()
@click.argument("table")
@click.argument("key")
@reaching
@json_option
def delete(table: str, key: str, *, socket: str | None, name: str | None, as_json: bool) -> None:
    """Remove KEY. Ends with 1 when it was not there."""
    with complaining(as_json=as_json), reach(socket, name) as client:
        found = read_value(key, _read_file)
        if not client.stash.delete(table, found):
            raise StashKeyNotFoundError(table, found)
        click.echo(json_text({"deleted": True}) if as_json else "deleted")


@stash.command()
@click.argument("table")
@click.option("--yes", is_flag=True, help="Do not ask.")
@reaching
@json_option
def clear(table: str, *, yes: bool, socket: str | None, name: str | None, as_json: bool) -> None:
    """Remove every entry of TABLE; asks first."""
    with complaining(as_json=as_json), reach(socket, name) as client:
        size = client.stash.info(table)["size"]
        if not yes:
            click.confirm(f"Remove {size} entries of table {table!r} for good?", abort=True, err=True)
        count = client.stash.clear(table)
        click.echo(json_text({"cleared": count}) if as_json else f"{count} entries removed")


@stash.command()
@click.argument("table")
@click.option("--pattern", help="Only text keys that match, such as 'user:*'.")
@reaching
@json_option
def watch(table: str, *, pattern: str | None, socket: str | None, name: str | None, as_json: bool) -> None:
    """Write each change of TABLE as it happens, until Ctrl-C."""
    with complaining(as_json=as_json), reach(socket, name) as client:
        for change in client.stash.watch(table, pattern):
            if as_json:
                click.echo(json_text(change))
            elif change.kind == "gap":
                click.echo("gap\tchanges were missed")
            else:
                click.echo(f"{change.kind}\t{human_form(change.key)}\t{change.version}")
            sys.stdout.flush()


@stash.command("export")
@click.argument("tables", nargs=-1)
@click.option("--output", "-o", type=click.File("w", encoding="utf-8", lazy=True), default="-", help="[stdout]")
@reaching
def export_(tables: tuple[str, ...], *, output: IO[str], socket: str | None, name: str | None) -> None:
    """Write TABLES, or all, as JSON lines that `import` reads: one line for each table and entry."""
    with complaining(), reach(socket, name) as client:
        for line in client.stash.export(*tables):
            output.write(line + "\n")


@stash.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@reaching
@json_option
def import_(file: IO[str], *, socket: str | None, name: str | None, as_json: bool) -> None:
    """Store what `export` wrote to FILE (- for stdin), over what stands under the same keys."""
    with complaining(as_json=as_json), reach(socket, name) as client:
        count = client.stash.import_lines(file)
        click.echo(json_text({"imported": count}) if as_json else f"{count} entries stored")


def _write(value: Any, *, as_json: bool) -> None:
    if not as_json and isinstance(value, bytes | bytearray) and not sys.stdout.isatty():
        click.echo(bytes(value), nl=False)
    else:
        click.echo(json_text(value) if as_json else human_form(value))


def _read_file(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
