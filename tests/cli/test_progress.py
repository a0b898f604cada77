from __future__ import annotations

import io

from dirtybus.cli.progress import ProgressLine, progress_text
from dirtybus.protocol.heads import Progress


def test_a_known_total_gives_a_bar_and_a_share() -> None:
    text = progress_text(Progress(done=3, total=4, text="cooking"))
    assert text == "█" * 18 + "░" * 6 + "  75% 3/4 cooking"


def test_more_than_the_total_is_a_full_bar() -> None:
    assert "100% 9/4" in progress_text(Progress(done=9, total=4))


def test_without_a_total_it_is_a_count() -> None:
    assert progress_text(Progress(done=7, total=None, text="pages\nread")) == "7 pages read"
    assert progress_text(Progress(done=7, total=0)) == "7"


def test_each_report_is_drawn_over_the_one_before_and_cut_to_the_width() -> None:
    terminal = io.StringIO()
    line = ProgressLine(terminal, 10)
    line.show(Progress(done=1, total=None, text="x" * 50))
    line.show(Progress(done=2))
    assert terminal.getvalue() == "\r\x1b[K1 xxxxxxx\r\x1b[K2"


def test_clearing_leaves_an_empty_line_and_nothing_when_nothing_was_drawn() -> None:
    terminal = io.StringIO()
    line = ProgressLine(terminal, 80)
    line.clear()
    assert terminal.getvalue() == ""
    line.show(Progress(done=1))
    line.clear()
    line.clear()
    assert terminal.getvalue() == "\r\x1b[K1\r\x1b[K"
