"""Spans that must fit one another: those of a shutdown, and limits that would undo each other. Reads no clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from dirtybus.errors import ConfigError

__all__ = ["EXIT_MARGIN_S", "Deadline", "Spans", "check_stop_grace", "doubts"]

#: what an exit may take beyond the work in progress, until the process is ended by force
EXIT_MARGIN_S: Final = 5.0
#: of the spans that come with the settings themselves nobody is warned
_DEFAULT_TIMEOUT_S: Final = 300.0
_DEFAULT_GRACEFUL_S: Final = 30.0
#: a line that names more is read by nobody
_MOST_NAMED: Final = 5


class Spans(Protocol):
    """Those settings that are spans of time; a `DirtyConfig` has them."""

    @property
    def timeout_s(self) -> float | None: ...
    @property
    def queue_timeout_s(self) -> float | None: ...
    @property
    def heartbeat_timeout_s(self) -> float | None: ...
    @property
    def graceful_timeout_s(self) -> float: ...
    @property
    def drain_delay_s(self) -> float: ...
    @property
    def stop_grace_s(self) -> float | None: ...
    @property
    def cancel_grace_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Deadline:
    """How long the calls of ``whom`` may take, by its own wish; None: without an end."""

    whom: str
    timeout_s: float | None

    def __str__(self) -> str:
        return f"{self.whom} ({'no deadline' if self.timeout_s is None else f'{self.timeout_s:g} s'})"


def check_stop_grace(spans: Spans) -> None:
    """Refuse a shutdown that takes longer than the supervisor waits for.

    Raises:
        ConfigError: names the spans, their sum, and what to set.
    """
    if spans.stop_grace_s is None:
        return
    needed_s = spans.drain_delay_s + spans.graceful_timeout_s + EXIT_MARGIN_S
    if needed_s <= spans.stop_grace_s:
        return
    left_s = spans.stop_grace_s - spans.drain_delay_s - EXIT_MARGIN_S
    lower = f"lower graceful_timeout_s to {left_s:g} or less" if left_s > 0 else "lower drain_delay_s"
    raise ConfigError(
        f"stop_grace_s is {spans.stop_grace_s:g}, but a shutdown may take {needed_s:g} s: drain_delay_s "
        f"({spans.drain_delay_s:g}) + graceful_timeout_s ({spans.graceful_timeout_s:g}) + {EXIT_MARGIN_S:g} for the "
        f"rest; the supervisor would kill it in the middle. Have the supervisor wait {needed_s:g} s and set "
        f"stop_grace_s to that, or {lower}"
    )


def doubts(spans: Spans, deadlines: Iterable[Deadline] = ()) -> Iterator[str]:
    """Yield a sentence for each combination of spans that works, but hardly as meant.

    Args:
        spans: the settings.
        deadlines: of those apps and actions that have one of their own.
    """
    yield from _cut_by_shutdown(spans, deadlines)
    if 0 < spans.graceful_timeout_s <= spans.cancel_grace_s:
        yield (
            f"cancel_grace_s is {spans.cancel_grace_s:g} but graceful_timeout_s is {spans.graceful_timeout_s:g}: a "
            "call that is cancelled during a shutdown is cut before its grace is over; lower cancel_grace_s"
        )
    if spans.heartbeat_timeout_s is not None and spans.heartbeat_timeout_s < spans.cancel_grace_s:
        yield (
            f"heartbeat_timeout_s is {spans.heartbeat_timeout_s:g} but cancel_grace_s is {spans.cancel_grace_s:g}: a "
            "stuck worker is killed before its grace is over; raise heartbeat_timeout_s"
        )
    queue_s, timeout_s = spans.queue_timeout_s, spans.timeout_s
    if queue_s is not None and timeout_s is not None and queue_s >= timeout_s:
        yield (
            f"queue_timeout_s is {queue_s:g} but timeout_s is {timeout_s:g}: a call's deadline "
            "passes first, so queue_timeout_s does nothing; lower it"
        )


def _cut_by_shutdown(spans: Spans, deadlines: Iterable[Deadline]) -> Iterator[str]:
    grace_s = spans.graceful_timeout_s
    longer = [each for each in deadlines if each.timeout_s is None or each.timeout_s > grace_s]
    is_default = (spans.timeout_s, grace_s) == (_DEFAULT_TIMEOUT_S, _DEFAULT_GRACEFUL_S)
    if not is_default and (spans.timeout_s is None or spans.timeout_s > grace_s):
        longer.append(Deadline("whatever has no timeout of its own", spans.timeout_s))
    if not longer:
        return
    rest = f" and {len(longer) - _MOST_NAMED} more" if len(longer) > _MOST_NAMED else ""
    yield (
        f"calls of {', '.join(map(str, longer[:_MOST_NAMED]))}{rest} may take longer than a shutdown waits for them "
        f"(graceful_timeout_s is {grace_s:g}) and would be cut; raise graceful_timeout_s and what the supervisor "
        "waits, or lower their timeout"
    )
