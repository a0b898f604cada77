"""The live screen of the demo, drawn by rich in a thread of its own: the loop only says what there is to see."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dirtybus.demo.view import View

__all__ = ["LiveScreen", "picture_of"]

_BAR_WIDTH = 76
_STYLES = {"busy": "green", "idle": "cyan", "booting": "yellow", "draining": "magenta"}


class LiveScreen:
    """Draws the last view eight times a second."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=8)
        self._is_open = False

    def show(self, view: View) -> None:
        if not self._is_open:
            self._is_open = True
            self._live.start()
        self._live.update(picture_of(view))

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._live.stop()


def picture_of(view: View) -> RenderableType:
    """Return the view as something that rich draws."""
    numbers = Text.assemble(
        (f"{view.settled}/{view.posted}", "bold"),
        " events done   ",
        (f"{view.held}", "bold yellow"),
        " held   ",
        (f"{view.running}", "bold green"),
        f" running   {view.files_per_s:.0f} files/s   {view.elapsed_s:.1f} s",
    )
    lag = Text.assemble(
        "event loop: ",
        (f"{view.lag_now_s * 1e3:.1f} ms", "bold"),
        f" late now, {view.lag_worst_s * 1e3:.1f} ms at worst",
    )
    return Group(numbers, _bar(view), _workers(view), lag)


def _bar(view: View) -> Text:
    full = _BAR_WIDTH * view.settled // max(1, view.posted)
    return Text.assemble(("━" * full, "green"), ("━" * (_BAR_WIDTH - full), "bright_black"))


def _workers(view: View) -> Table:
    table = Table("WORKER", "PID", "STATE", "ANSWERED", box=None, header_style="dim")
    for worker in view.workers:
        state = Text(worker.state, _STYLES.get(worker.state, ""))
        table.add_row(f"w{worker.number}", str(worker.pid), state, str(worker.answered))
    return table
