"""How much waits for each app, and who yields when it is too much. Never learns who is next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dirtybus.config import DirtyConfig
from dirtybus.pool.model import Call, CallId, Waiting
from dirtybus.pool.ranking import Ranking

__all__ = ["Bounds"]


class _Load:
    """What waits for one app. ``by_priority`` has the same as pairs of count and size; ``ages`` ranks who yields."""

    __slots__ = ("ages", "by_priority", "count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.by_priority: dict[int, tuple[int, int]] = {}
        self.ages: Ranking[CallId] = Ranking()


class Bounds:
    """Counts the calls that were never sent to a worker, and the bytes of their arguments, app by app.

    A call that is larger than the bound in bytes waits alone, as it could never run otherwise.

    Args:
        config: ``max_queued`` and ``max_queued_payload_bytes`` bound each app; ``queue_full`` says whether calls yield.
    """

    def __init__(self, config: DirtyConfig) -> None:
        self._loads: dict[str, _Load] = {}
        self.reconfigure(config)

    def reconfigure(self, config: DirtyConfig) -> None:
        """Have other bounds for those that come from now on."""
        self._max_count = config.max_queued
        self._max_size = config.max_queued_payload_bytes
        self._may_drop = config.queue_full == "drop_oldest"

    def fits(self, call: Call) -> bool:
        """Say whether the call may wait beside those that do."""
        load = self._loads.get(call.app)
        return load is None or self._fits(load.count, load.size, call)

    def can_yield_to(self, call: Call) -> bool:
        """Say whether the call would fit once calls of its priority or a lower one have yielded."""
        load = self._loads.get(call.app)
        if not self._may_drop or load is None:
            return False
        staying = [pair for priority, pair in load.by_priority.items() if priority > call.priority]
        return self._fits(sum(count for count, _ in staying), sum(size for _, size in staying), call)

    def first_to_yield(self, app: str) -> CallId | None:
        """Return the call of the lowest priority, and of those the one that has waited longest."""
        load = self._loads.get(app)
        return None if load is None else load.ages.first()

    def count(self, app: str) -> int:
        """Return how many calls of the app count."""
        load = self._loads.get(app)
        return 0 if load is None else load.count

    def sizes(self) -> Mapping[str, int]:
        """Return how many bytes wait for each app that has any."""
        return {app: load.size for app, load in self._loads.items() if load.size}

    def add(self, waiting: Waiting) -> None:
        call = waiting.call
        load = self._loads.get(call.app)
        if load is None:
            load = self._loads[call.app] = _Load()
        self._note(load, call, 1)
        if self._may_drop:
            # of the lowest priority first, then of the lowest order: an int that no order is large enough to spill
            load.ages.put(call.id, (call.priority << 64) + waiting.order)

    def remove(self, waiting: Waiting) -> None:
        load = self._loads[waiting.call.app]
        self._note(load, waiting.call, -1)
        load.ages.drop(waiting.call.id)
        if not load.count:
            del self._loads[waiting.call.app]

    def clear(self) -> None:
        self._loads.clear()

    def check(self, fresh: Iterable[Waiting]) -> None:
        """Raise AssertionError when the books are not those of the ``fresh`` calls that wait."""
        counts: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for waiting in fresh:
            app = waiting.call.app
            counts[app] = counts.get(app, 0) + 1
            sizes[app] = sizes.get(app, 0) + waiting.call.size
            assert not self._may_drop or waiting.call.id in self._loads[app].ages, f"{waiting} never yields"
        booked = {app: load.count for app, load in self._loads.items()}
        assert booked == counts, f"calls wait for the first time: {counts}, booked are {booked}"
        assert {app: load.size for app, load in self._loads.items()} == sizes, f"bytes wait: {sizes}, booked otherwise"
        for app, load in self._loads.items():
            pairs = list(load.by_priority.values())
            total = sum(count for count, _ in pairs), sum(size for _, size in pairs)
            assert not self._may_drop or total == (load.count, load.size), f"{app} miscounts its priorities"
            assert len(load.ages) == (load.count if self._may_drop else 0), f"{app} miscounts those that may yield"
            assert load.count <= self._max_count, f"{load.count} calls wait for {app}"
            assert load.size <= self._max_size or load.count == 1, f"{load.size} bytes wait for {app}"

    def _fits(self, count: int, size: int, call: Call) -> bool:
        return not count or (count < self._max_count and size + call.size <= self._max_size)

    def _note(self, load: _Load, call: Call, sign: int) -> None:
        load.count += sign
        load.size += sign * call.size
        if not self._may_drop:
            return
        count, size = load.by_priority.get(call.priority, (0, 0))
        load.by_priority[call.priority] = count + sign, size + sign * call.size
        if not count + sign:
            del load.by_priority[call.priority]
