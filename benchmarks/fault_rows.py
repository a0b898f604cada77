"""What became of the calls while workers were killed: records, journal and kills in, one row out. Measures nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

__all__ = ["FaultRow", "Kill", "Told", "fault_row", "fault_table"]

#: how long after a kill an error may still be its consequence for a call that had just been handed over
_NEWS_WITHIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One call, as its caller saw it. Moments are of `time.monotonic`."""

    token: str
    told_at: float
    outcome: Literal["answered", "failed", "hung", "wrong"]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One ``kill -9`` of a worker."""

    at: float
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """One contestant.

    Attributes:
        kills: how many workers were killed, ``busy_kills`` of them in the middle of work.
        calls: how many calls were made.
        answered: how many got the right answer.
        died_in_worker: how many failed because their own worker was killed under them.
        lost: how many failed although no worker was killed under them.
        doubled: how many were begun more than once.
        wrong: how many got another's answer, or none of the kind.
        hung: how many had no outcome within the limit.
        longest_stall_ms: the longest span without any answer.
        works_afterwards: whether it answers when nobody is killed any more.
        errors: the errors of the lost ones, by name.
    """

    contestant: str
    kills: int
    busy_kills: int
    calls: int
    answered: int
    died_in_worker: int
    lost: int
    doubled: int
    wrong: int
    hung: int
    longest_stall_ms: int
    works_afterwards: bool
    errors: dict[str, int]

    def as_mapping(self) -> dict[str, Any]:
        return asdict(self)


def fault_row(
    contestant: str,
    calls: Sequence[Told],
    journal: Iterable[str],
    kills: Sequence[Kill],
    *,
    began_at: float,
    ended_at: float,
    works_afterwards: bool,
) -> FaultRow:
    """Count. ``journal`` has the lines that the workers wrote: ``begin TOKEN PID`` and ``end TOKEN PID``."""
    begun: Counter[str] = Counter()
    begun_in: defaultdict[int, set[str]] = defaultdict(set)
    open_in: defaultdict[int, set[str]] = defaultdict(set)
    for line in journal:
        word, token, pid = line.split()
        if word == "begin":
            begun[token] += 1
            begun_in[int(pid)].add(token)
            open_in[int(pid)].add(token)
        else:
            open_in[int(pid)].discard(token)
    # also what was done, and whose answer had not left yet
    victims = {token for kill in kills for token in begun_in[kill.pid]}
    failed = [call for call in calls if call.outcome == "failed"]
    died = [call for call in failed if call.token in victims]
    # a worker without open work may have been handed a call that it had not written down yet
    idle_kills = sorted(kill.at for kill in kills if not open_in[kill.pid])
    handed_over = _matched([call for call in failed if not begun[call.token]], idle_kills)
    lost = [call for call in failed if call.token not in victims and call.token not in handed_over]
    answers = [call.told_at for call in calls if call.outcome == "answered"]
    return FaultRow(
        contestant=contestant,
        kills=len(kills),
        busy_kills=len(kills) - len(idle_kills),
        calls=len(calls),
        answered=len(answers),
        died_in_worker=len(died) + len(handed_over),
        lost=len(lost),
        doubled=sum(times > 1 for times in begun.values()),
        wrong=sum(call.outcome == "wrong" for call in calls),
        hung=sum(call.outcome == "hung" for call in calls),
        longest_stall_ms=round(1000 * _longest_gap([began_at, *sorted(answers), ended_at])),
        works_afterwards=works_afterwards,
        errors=dict(Counter(call.note for call in lost)),
    )


def fault_table(rows: Sequence[FaultRow]) -> str:
    """Return the rows as text, a line for each contestant."""
    lines = [_HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(others, widths[1:], strict=True))])
        for first, *others in lines
    )


_HEADINGS = (
    "contestant", "kills", "calls", "answered", "killed with their worker", "lost", "doubled", "wrong", "hung",
    "longest stall ms", "works afterwards",
)  # fmt: skip


def _cells(row: FaultRow) -> tuple[str, ...]:
    counts = (row.calls, row.answered, row.died_in_worker, row.lost, row.doubled, row.wrong, row.hung)
    return (
        row.contestant,
        f"{row.kills} ({row.busy_kills} busy)",
        *(f"{count:,}" for count in counts),
        f"{row.longest_stall_ms:,}",
        "yes" if row.works_afterwards else "no",
    )


def _matched(calls: Iterable[Told], kills_at: list[float]) -> set[str]:
    """Give each kill one call that failed right after it; return their tokens."""
    found = set()
    free = list(kills_at)
    for call in sorted(calls, key=lambda call: call.told_at):
        cause = next((at for at in free if 0 <= call.told_at - at <= _NEWS_WITHIN_S), None)
        if cause is not None:
            free.remove(cause)
            found.add(call.token)
    return found


def _longest_gap(moments: Sequence[float]) -> float:
    return max((later - earlier for earlier, later in pairwise(moments)), default=0.0)
