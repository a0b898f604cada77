"""The last words of the demo: what was asked, who answered, and how the loop felt. Counts nothing itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dirtybus.demo.tally import Tally

__all__ = ["label_table", "summary"]

_LABELS_SHOWN = 10


def summary(
    tally: Tally, *, labels: Mapping[str, int], ledger: Mapping[str, int], lag_worst_s: float, chat: str
) -> str:
    """Return the summary.

    Args:
        tally: what became of the events.
        labels: how many files there are of each kind.
        ledger: the arbiter's books.
        lag_worst_s: the latest tick of the owner's loop.
        chat: a sentence on the language model.
    """
    by_worker = ", ".join(f"w{number} {count}" for number, count in tally.by_worker().items())
    return "\n".join(
        [
            *label_table(labels),
            *_events(tally),
            f"files      {tally.files_done} in {tally.span_s:.1f} s, {tally.files_per_s:.0f} files/s",
            f"workers    {by_worker or 'none was ready'}",
            f"loop lag   worst {lag_worst_s * 1e3:.1f} ms, measured every 10 ms while the workers worked",
            "calls      " + ", ".join(f"{count} {word}" for word, count in ledger.items() if count or word == "open"),
            f"chat       {chat}",
            "",
        ]
    )


def label_table(labels: Mapping[str, int]) -> Iterator[str]:
    """Return the lines of a table of the commonest labels, with an empty one at its end; nothing if there are none."""
    if not labels:
        return
    ranked = sorted(labels.items(), key=lambda item: (-item[1], item[0]))
    width = max((len(label) for label, _ in ranked[:_LABELS_SHOWN]), default=0)
    yield f"{'LABEL':<{max(5, width)}}  FILES"
    for label, count in ranked[:_LABELS_SHOWN]:
        yield f"{label:<{max(5, width)}}  {count:5}"
    if rest := ranked[_LABELS_SHOWN:]:
        yield f"and {len(rest)} more labels on {sum(count for _, count in rest)} files"
    yield ""


def _events(tally: Tally) -> Iterator[str]:
    early = f"{tally.posted_early} of them posted before any worker was ready"
    if tally.is_complete:
        yield f"events     every event answered: {tally.answered}/{tally.posted}, {early}"
        return
    open_ = tally.posted - tally.settled
    yield (
        f"events     {tally.answered}/{tally.posted} answered, {tally.refused} refused, {tally.failed} failed, "
        f"{open_} open; {early}"
    )
    for kind, message in sorted(tally.errors.items()):
        yield f"           {kind}: {message}"
