"""The status as tables: tab-separated for programs, drawn for people. Asks nobody; it is given the plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dirtybus.cli.human_form import size_text, span_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = ["plain_status", "screen_of"]

_INSTANCE: Final = ("name", "state", "pid", "target", "smallest", "oldest_call_s")
_WORKER: Final = ("worker", "pid", "state", "age_s", "running", "answered", "apps")
_CALL: Final = ("call", "app", "action", "attempt", "age_s", "running_s", "outcome")
_STASH: Final = ("tables", "entries", "memory_bytes", "max_bytes", "waiting")
#: text and shape, as colour alone is lost on some
_SHAPES: Final = {"busy": "●", "idle": "○", "booting": "◌", "draining": "◐", "gone": "■"}


def plain_status(status: Mapping[str, Any]) -> str:
    """Return the status as tab-separated tables; the first line of each begins with ``#``, an empty line ends it."""
    ledger = status["ledger"]
    tables = [
        _plain(_INSTANCE, [[_cell(status[key]) for key in _INSTANCE]]),
        _plain(_WORKER, [_worker_row(worker) for worker in status["workers"]]),
        _plain(("app", "queued"), sorted(status["queued"].items())),
        _plain(tuple(ledger), [list(ledger.values())]),
        _plain(("worker", *_CALL), [_call_row(worker, call) for worker, call in _running(status["workers"])]),
        _plain(("broken",), [[app] for app in status["broken"]]),
        _plain(_STASH, [[_cell(status["stash"][key]) for key in _STASH]]),
    ]
    return "\n".join(tables)


def screen_of(status: Mapping[str, Any]) -> RenderableType:
    """Return the status as something that rich prints."""
    from rich.console import Group
    from rich.text import Text

    workers = status["workers"]
    is_elastic = status["least"] != status["most"]
    extent = f" ({status['least']}-{status['most']})" if is_elastic else ""
    head = Text.assemble(
        ("dirtybus ", "bold"),
        (str(status["name"]), "bold cyan"),
        f"  pid {status['pid']}  {status['state']}  {len(workers)} of {status['target']} workers{extent}  "
        f"{sum(status['queued'].values())} queued  {sum(worker['running'] for worker in workers)} running",
    )
    ledger = "  ".join(f"{count} {word}" for word, count in status["ledger"].items() if count or word == "submitted")
    parts: list[RenderableType] = [head, _worker_table(workers)]
    if any(worker["calls"] for worker in workers):
        parts.append(_call_table(workers))
    if status["queued"]:
        parts.append(_queue_table(status["queued"], status["waits"]))
    parts += [Text(f"✗ out of order, its workers keep failing: {app}", "bold red") for app in status["broken"]]
    oldest_s = status["oldest_call_s"]
    oldest = "" if oldest_s is None else f"  oldest {span_text(oldest_s)}"
    return Group(*parts, Text(f"calls: {ledger}{oldest}", "dim"), Text(_stash_line(status["stash"]), "dim"))


def _stash_line(stash: Mapping[str, Any]) -> str:
    bound = "" if stash["max_bytes"] is None else f" of {size_text(stash['max_bytes'])}"
    line = f"stash: {stash['tables']} tables  {stash['entries']} entries  {size_text(stash['memory_bytes'])}{bound}"
    store = stash["store"]
    if store is None:
        return line
    trouble = f"  ✗ {store['error']}" if store["error"] else ""
    return f"{line}  {size_text(store['pending_bytes'])} to be written{trouble}"


def _plain(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["# " + "\t".join(header), *("\t".join(map(str, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def _worker_row(worker: Mapping[str, Any]) -> list[object]:
    return [",".join(worker[key]) if key == "apps" else worker[key] for key in _WORKER]


def _running(workers: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each call that takes a slot, with its worker."""
    for worker in workers:
        for call in worker["calls"]:
            yield worker, call


def _call_row(worker: Mapping[str, Any], call: Mapping[str, Any]) -> list[object]:
    return [worker["worker"], *(_cell(call[key]) for key in _CALL)]


def _cell(value: object) -> object:
    return "-" if value is None else value


def _worker_table(workers: Sequence[Mapping[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("WORKER", "PID", "STATE", "AGE", "RUNNING", "ANSWERED", "APPS", box=None, header_style="bold")
    for worker in workers:
        state = f"{_SHAPES.get(worker['state'], '?')} {worker['state']}"
        counts = (str(worker["running"]), str(worker["answered"]))
        table.add_row(
            f"w{worker['worker']}",
            str(worker["pid"]),
            state,
            span_text(worker["age_s"]),
            *counts,
            "\n".join(worker["apps"]),
        )
    return table


def _call_table(workers: Sequence[Mapping[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("WORKER", "CALL", "RUNS FOR", "AGE", "ATTEMPT", "ACTION", box=None, header_style="bold")
    for worker, call in _running(workers):
        # its caller has been told, and it goes on: the one that may be stuck
        told = "" if call["outcome"] is None else f" ({call['outcome']}, still running)"
        table.add_row(
            f"w{worker['worker']}",
            str(call["call"]),
            span_text(call["running_s"]),
            span_text(call["age_s"]),
            str(call["attempt"]),
            f"{call['app']} {call['action']}{told}",
        )
    return table


def _queue_table(queued: Mapping[str, int], waits: Mapping[str, str]) -> Table:
    from rich.table import Table

    table = Table("APP", "QUEUED", "WHY", box=None, header_style="bold")
    for app, count in sorted(queued.items()):
        table.add_row(app, str(count), waits.get(app, ""))
    return table
