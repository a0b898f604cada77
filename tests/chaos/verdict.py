"""The verdict: records and journal in, every broken promise out. Knows no process and no clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.chaos.journal import Journal
from tests.chaos.records import KINDS, CallRecord, Kind, Outcome

__all__ = ["Breach", "Rules", "Verdict", "judge", "longest_stall_s"]

#: timers may ring that much early
_EARLY_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What callers were promised. Spans are in seconds.

    Attributes:
        patience_s: within which a call without a deadline is answered, whatever dies.
        cancel_grace_s: the setting of that name.
        margin_s: how late news of a deadline may be on a machine whose cores are busy.
        crash_limit: the setting of that name.
    """

    patience_s: float
    cancel_grace_s: float
    margin_s: float
    crash_limit: int

    def limit_s(self, record: CallRecord) -> float:
        """Return within which span the call has an outcome."""
        base_s = self.patience_s if record.deadline_s is None else record.deadline_s + self.cancel_grace_s
        return base_s + self.margin_s + record.extra_s


@dataclass(frozen=True, slots=True)
class Breach:
    """One broken promise. ``what`` is lost, doubled, wrong or hung."""

    what: str
    record: CallRecord
    why: str

    def __str__(self) -> str:
        record = self.record
        return f"{self.what}: {record.kind} {record.token} ({record.caller}): {self.why}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Every breach, and the longest span without an answer while somebody waited for one."""

    breaches: Sequence[Breach]
    longest_stall_s: float

    def count(self, what: str) -> int:
        return sum(breach.what == what for breach in self.breaches)


def judge(records: Sequence[CallRecord], journal: Journal, *, ended_at: float, rules: Rules) -> Verdict:
    """Hold each call to its promise. ``ended_at`` is when the callers stopped waiting."""
    found = [
        breach
        for record in records
        for breach in (
            _doubled(record, journal),
            _unsettled(record, ended_at, rules),
            _belied(record, journal, rules),
        )
        if breach is not None
    ]
    return Verdict(found, longest_stall_s(records, ended_at))


def longest_stall_s(records: Iterable[CallRecord], ended_at: float) -> float:
    """Return the longest span in which calls were open and none was answered."""
    moments = []
    for record in records:
        moments.append((record.asked_at, 1, False))
        at = ended_at if record.settled_at is None else record.settled_at
        moments.append((at, -1, record.outcome is Outcome.ANSWER))
    longest_s, is_open, since = 0.0, 0, math.inf
    # at one moment, what ends comes first: then nobody waited
    for at, change, is_answer in sorted(moments, key=lambda moment: moment[:2]):
        if is_answer or (change < 0 and is_open == 1):
            longest_s = max(longest_s, at - since)
            since = at
        if change > 0 and is_open == 0:
            since = at
        is_open += change
    return longest_s


# --- the promises, one by one -------------------------------------------------------------------------------------


def _doubled(record: CallRecord, journal: Journal) -> Breach | None:
    runs = journal.begun[record.token]
    if runs < 2:
        return None
    return Breach("doubled", record, f"it must not run twice and began {runs} times")


def _unsettled(record: CallRecord, ended_at: float, rules: Rules) -> Breach | None:
    if record.settled_at is None and record.is_cut:
        return None  # whoever asked is gone
    limit_s = rules.limit_s(record)
    waited_s = (ended_at if record.settled_at is None else record.settled_at) - record.asked_at
    if waited_s > limit_s:
        return Breach(
            "hung", record, f"{record.outcome or 'nothing'} after {waited_s:.2f} s, due within {limit_s:.2f} s"
        )
    if record.settled_at is None:
        return Breach("lost", record, "its caller was told nothing")
    return None


def _belied(record: CallRecord, journal: Journal, rules: Rules) -> Breach | None:
    if record.outcome is None:
        return None
    kind = KINDS[record.kind]
    if why := _false_answer(record, kind, journal):
        return Breach("wrong", record, why)
    match record.outcome:
        case Outcome.ANSWER:
            return None
        case Outcome.APP_ERROR:
            return _app_error(record, kind)
        case Outcome.TIMEOUT:
            return _timeout(record, journal)
        case Outcome.LOST:
            # a stream that has begun cannot be told again
            is_fair = not kind.is_idempotent or (kind.is_stream and bool(record.value))
            return None if is_fair else Breach("lost", record, f"an answer is promised whatever dies: {record.note}")
        case Outcome.POISON:
            return _poison(record, kind, rules)
        case Outcome.CANCELLED:
            is_fair = record.may_leave or record.is_cut
            return None if is_fair else Breach("wrong", record, "cancelled, and nobody had asked for that")
        case Outcome.DISCONNECTED:
            return None if record.is_cut else Breach("lost", record, f"nobody cut its connection: {record.note}")
        case Outcome.REFUSED:
            return None if record.is_cut else Breach("lost", record, f"there was no reason to refuse it: {record.note}")
        case Outcome.OTHER:
            return Breach("wrong", record, f"an error that nobody may get: {record.note}")


def _false_answer(record: CallRecord, kind: Kind, journal: Journal) -> str | None:
    if kind.is_stream and kind.truth is not None:
        whole, got = kind.truth(record.token), list(record.value or ())
        if got != whole[: len(got)]:
            return f"chunks that are not its own: {got}"
        if record.outcome is Outcome.ANSWER and len(got) < len(whole):
            return f"{len(got)} chunks of {len(whole)}"
    elif record.outcome is Outcome.ANSWER:
        if kind.truth is None:
            return f"answered {record.value!r} where there is no answer"
        if record.value != kind.truth(record.token):
            return f"answered {record.value!r} instead of {kind.truth(record.token)!r}"
    if record.outcome is Outcome.ANSWER and kind.is_noted and not journal.ended[record.token]:
        return "answered without having run to its end"
    return None


def _app_error(record: CallRecord, kind: Kind) -> Breach | None:
    # a neighbour in the same process may have used up its memory
    expected = "MemoryError" if kind.error is None else kind.error(record.token)
    if record.note.startswith((expected, "MemoryError")):
        return None
    return Breach("wrong", record, f"the action raises no {record.note}")


def _timeout(record: CallRecord, journal: Journal) -> Breach | None:
    assert record.settled_at is not None
    if record.deadline_s is None:
        return Breach("wrong", record, f"timed out without a deadline: {record.note}")
    waited_s = record.settled_at - record.asked_at
    if waited_s < record.deadline_s - _EARLY_S:
        return Breach("wrong", record, f"timed out after {waited_s:.3f} s of {record.deadline_s} s")
    if record.note == "queued" and journal.begun[record.token]:
        return Breach("wrong", record, "it is said to have waited only, and it began")
    return None


def _poison(record: CallRecord, kind: Kind, rules: Rules) -> Breach | None:
    deaths = int(record.note.split()[0])
    if not kind.is_idempotent:
        return Breach("wrong", record, "poison is what was run again, and this must not be")
    if deaths < rules.crash_limit:
        return Breach("lost", record, f"given up after {deaths} of {rules.crash_limit} deaths")
    return None
