from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from dirtybus.demo.live_screen import LiveScreen, picture_of
from dirtybus.demo.view import PlainScreen, View, WorkerView


def view(**changes: Any) -> View:
    moment: dict[str, Any] = {
        "elapsed_s": 0.0, "posted": 10, "settled": 4, "held": 3, "running": 2, "files_per_s": 61.7,
        "lag_now_s": 0.0004, "lag_worst_s": 0.0041, "workers": (worker("busy"),),
    }  # fmt: skip
    return View(**{**moment, **changes})


def worker(state: str) -> WorkerView:
    return WorkerView(number=1, pid=41, state=state, answered=4)


def test_plain_lines_come_once_a_second() -> None:
    out = io.StringIO()
    screen = PlainScreen(out)
    for elapsed_s in (0.0, 0.5, 1.1, 1.9, 2.2):
        screen.show(view(elapsed_s=elapsed_s, workers=()))
    assert [line.split()[0] for line in out.getvalue().splitlines()] == ["0.0", "1.1", "2.2"]
    assert out.getvalue().startswith(
        "   0.0 s  4/10 events done, 3 held, 2 running, 62 files/s, loop lag 0.4 ms (worst 4.1)\n"
    )


def test_a_plain_line_tells_of_each_change_of_a_worker() -> None:
    out = io.StringIO()
    screen = PlainScreen(out)
    for state in ("booting", "booting", "idle", "busy", "idle", "draining"):
        screen.show(view(workers=(worker(state),)))
    assert [line[10:] for line in out.getvalue().splitlines() if "worker" in line] == [
        "worker 1 is booting (pid 41)",
        "worker 1 is ready (pid 41)",
        "worker 1 is draining (pid 41)",
    ]


def drawn(moment: View) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(picture_of(moment))
    return out.getvalue()


def test_the_picture_has_every_number_and_fits_a_narrow_terminal() -> None:
    lines = drawn(view(elapsed_s=3.21)).splitlines()
    assert lines[0].split("   ") == ["4/10 events done", "3 held", "2 running", "62 files/s", "3.2 s"]
    assert lines[3].split() == ["w1", "41", "busy", "4"]
    assert lines[4] == "event loop: 0.4 ms late now, 4.1 ms at worst"
    assert all(len(line) <= 80 for line in lines)


def test_a_picture_of_nothing_can_be_drawn() -> None:
    assert "0/0 events done" in drawn(view(posted=0, settled=0, workers=()))


def test_the_live_screen_leaves_the_last_picture_and_may_be_closed_twice() -> None:
    out = io.StringIO()
    screen = LiveScreen(Console(file=out, width=80, force_terminal=True))
    screen.close()
    screen.show(view())
    screen.show(view(settled=10, held=0, running=0))
    screen.close()
    screen.close()
    assert "10/10" in out.getvalue()
    assert out.getvalue().rstrip("\n").endswith("\x1b[?25h")
