"""A hostile world around a pool: tells it facts, takes its orders, and says what must hold after every step.

It keeps its own books, from the orders alone, and knows the rules but none of the pool's ways.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import ports
from dirtybus.pool.model import Call, CallId, OnCancel, Phase, WorkerId
from tests.pool.books import SeenCall, SeenWorker
from tests.pool.rules import Rules


class World(Rules):
    """Feeds facts to a pool. ``is_sound`` is False from the first broken rule on."""

    def __init__(self, config: DirtyConfig, specs: list[AppSpec], threads_by_app: dict[str, int] | None = None) -> None:
        super().__init__(config, specs, threads_by_app)
        self.is_sound = True
        self.feed(self.fact)

    # --- facts: booked here first, then told to the pool ---

    def feed(self, fact: ports.Fact) -> None:
        self.fact = fact
        self.is_sound = False
        for order in self.pool.step(fact, self.now):
            self.apply(order)
        self.forget_seats()
        self.note_who_was_let_go()
        self.check()
        self.is_sound = True

    def note_who_was_let_go(self) -> None:
        """A worker that was let go while it runs calls has had no order yet: only the pool can say."""
        for view in self.pool.snapshot().workers:
            if view.phase is Phase.DRAINING and not self.workers[view.id].is_broken:
                self.workers[view.id].is_let_go = True

    def forget_seats(self) -> None:
        """A seat that was given up and comes again later is a new one, with no deaths to its name."""
        seats = {view.index for view in self.pool.snapshot().seats}
        for gone in self.not_before.keys() - seats:
            del self.not_before[gone], self.vacated[gone]
            self.deaths.pop(gone, None)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.feed(ports.Ticked())

    def submit(self, call: Call) -> None:
        assert call.id not in self.calls
        self.calls[call.id] = SeenCall(call)
        self.feed(ports.Submitted(call))
        if call.app not in self.specs and self.deadline == math.inf:
            assert self.calls[call.id].ended == "unknown_app"
        if self.deadline < math.inf:
            assert self.calls[call.id].ended == "draining"
        if self.calls[call.id].is_queued:
            assert not self.is_forsaken(call.app), "a call waits for a worker that will not come soon"
            assert self.fits(self.calls[call.id], self.fresh(call.app, beside=self.calls[call.id])), "too much waits"

    def ready(self, worker_id: WorkerId) -> None:
        worker = self.workers.get(worker_id)
        if worker is not None and worker.is_booting:
            worker.ready_at = self.now
        self.feed(ports.Ready(worker_id))

    def break_boot(self, worker_id: WorkerId) -> None:
        worker = self.workers.get(worker_id)
        if worker is not None and worker.is_booting:
            worker.is_broken = True
            worker.must_leave_by = min(self.now + self.config.graceful_timeout_s, self.last_moment())
        self.feed(ports.BootFailed(worker_id))

    def finish(self, worker_id: WorkerId, call_id: CallId) -> None:
        worker = self.workers.get(worker_id)
        if worker is not None and call_id in worker.running:
            worker.running.remove(call_id)
            seen = self.calls[call_id]
            seen.worker = None
            if seen.ended is None:
                seen.ended = "finished"
        self.feed(ports.Finished(worker_id, call_id))

    def stream(self, call_id: CallId) -> None:
        if self.calls[call_id].worker is not None:
            self.calls[call_id].has_streamed = True
        self.feed(ports.Streamed(call_id))

    def exit(self, worker_id: WorkerId, unbegun: frozenset[CallId] = frozenset(), blamed: tuple[str, ...] = ()) -> None:
        worker = self.workers.pop(worker_id, None)
        held = list(worker.running) if worker is not None else []
        self.unbegun = frozenset(c for c in unbegun & set(held) if self.calls[c].ended is None)
        if worker is not None:
            self.book_death(worker)
            for call_id in held:
                if call_id in self.unbegun:
                    self.calls[call_id].attempt -= 1  # that run never was
                    self.calls[call_id].bounces += 1
                else:
                    self.calls[call_id].crashes += worker.is_suspect
        self.dead = worker
        self.feed(ports.Exited(worker_id, unbegun, blamed))
        for call_id in held:
            seen = self.calls[call_id]
            assert seen.ended is not None or seen.worker not in (None, worker_id) or self.may_rerun(seen)
            if seen.worker == worker_id:
                seen.worker = None

    def fall_silent(self, worker_id: WorkerId) -> None:
        worker = self.workers.get(worker_id)
        is_dead = worker is not None and worker.running and not worker.is_killed
        self.feed(ports.Unresponsive(worker_id))
        assert worker is None or not is_dead or worker.is_silent, "a worker that gave no sign of life was left alone"

    def book_death(self, worker: SeenWorker) -> None:
        was_let_go = worker.is_let_go
        delay = 0.0
        if not was_let_go:
            was_healthy = worker.ready_at is not None and self.now - worker.ready_at >= self.config.healthy_after_s
            self.deaths[worker.seat] = 1 if was_healthy else self.deaths[worker.seat] + 1
            n = self.deaths[worker.seat]
            if n > 1:
                delay = min(self.config.restart_delay_s * 2 ** (n - 2), self.config.restart_delay_max_s)
        self.not_before[worker.seat] = self.now + delay
        self.vacated[worker.seat] = worker.apps

    def resize(self, size: int) -> None:
        if self.deadline == math.inf:
            self.size = max(size, self.pool.smallest_size())
        self.feed(ports.Resized(size))
        assert self.pool.size == self.size

    def drain(self, within_s: float) -> None:
        self.deadline = min(self.deadline, self.now + within_s)
        for worker in self.workers.values():
            worker.must_leave_by = min(worker.must_leave_by, self.last_moment())
        self.is_drain_near = True
        self.feed(ports.DrainBegun(self.now + within_s))

    def close_admission(self) -> None:
        self.is_drain_near = True
        self.feed(ports.AdmissionClosed())

    # --- what must hold after every step ---

    def check(self) -> None:
        assert not self.is_drain_near or all(s.ended for s in self.calls.values() if s.call.released_by_drain)
        self.pool.check_invariants()
        self.release_reruns()
        self.check_nothing_is_lost()
        self.check_nobody_idles()
        self.check_nobody_is_late()
        self.check_timer()

    def release_reruns(self) -> None:
        """After an exit, calls of the dead that neither ended nor went out wait again."""
        for seen in self.calls.values():
            if self.dead is not None and seen.worker == self.dead.id:
                assert seen.ended is not None or self.may_rerun(seen)
                seen.worker = None

    def check_nothing_is_lost(self) -> None:
        snapshot = self.pool.snapshot()
        queued = Counter(seen.call.app for seen in self.calls.values() if seen.is_queued)
        assert dict(snapshot.queued) == dict(queued)
        sizes: Counter[str] = Counter()
        for seen in self.calls.values():
            sizes[seen.call.app] += seen.call.size * seen.is_fresh
        assert snapshot.queued_bytes == {app: size for app, size in sizes.items() if size}
        assert {view.id: set(view.running) for view in snapshot.workers} == {
            worker.id: set(worker.running) for worker in self.workers.values()
        }
        assert snapshot.is_drained == self.is_drained

    def check_nobody_idles(self) -> None:
        for seen in self.calls.values():
            if seen.is_queued:
                assert not any(self.able(seen)), f"{seen.call} waits while a worker has room"

    def check_nobody_is_late(self) -> None:
        for at, what in self.alarms():
            assert at > self.now, f"nothing was done about {what}, due at {at}"

    def check_timer(self) -> None:
        wake_at = self.pool.wake_at()
        assert wake_at is None or wake_at > self.now, "the timer would spin"
        for at, what in self.alarms():
            assert wake_at is not None, f"no timer is set, and {what} is due at {at}"
            assert wake_at <= at, f"the timer is set for {wake_at}, and {what} is due at {at}"

    def alarms(self) -> Iterator[tuple[float, str]]:
        for seen in self.calls.values():
            if seen.ended is None and seen.call.expires_at is not None:
                yield seen.call.expires_at, f"the deadline of {seen.call}"
            if seen.is_fresh and seen.call.starts_by is not None:
                yield seen.call.starts_by, f"the wait of {seen.call}"
            is_bounded = seen.call.on_cancel is OnCancel.KILL and seen.abandoned_at is not None
            if is_bounded and seen.worker is not None and not self.workers[seen.worker].is_killed:
                yield (seen.abandoned_at or 0.0) + self.config.cancel_grace_s, f"the grace of {seen.call}"
        for worker in self.workers.values():
            if worker.is_booting and self.config.boot_timeout_s:
                yield worker.born_at + self.config.boot_timeout_s, f"the boot of {worker.id}"
            if (worker.is_told or worker.is_broken) and not worker.is_killed:
                yield worker.must_leave_by, f"the exit of {worker.id}"
        if self.deadline == math.inf:
            yield from self.due_spawns()
        elif not self.is_drained and (any(seen.is_queued for seen in self.calls.values()) or self.uncut()):
            yield self.deadline, "the drain"

    def uncut(self) -> bool:
        return any(worker.running and not worker.is_killed for worker in self.workers.values())

    def may_start(self) -> bool:
        """Say whether one more worker may boot; else it waits for one that does, not for time."""
        booting = sum(1 for worker in self.workers.values() if worker.is_booting)
        return booting < (self.config.max_starting or math.inf)

    def due_spawns(self) -> Iterator[tuple[float, str]]:
        if not self.may_start():
            return
        taken = {worker.seat for worker in self.workers.values()}
        for seat in self.pool.snapshot().seats:
            if seat.apps and seat.index not in taken:
                yield self.not_before.get(seat.index, -math.inf), f"the next worker of seat {seat.index}"

    # --- endings ---

    def calm_down(self) -> None:
        """Let the world be kind: everything boots, ends and leaves when it should, until nothing is left to do."""
        for _ in range(60):
            self.kill_and_leave()
            for worker in list(self.workers.values()):
                if worker.is_booting:
                    self.ready(worker.id)
            for worker in list(self.workers.values()):
                for call_id in list(worker.running):
                    self.finish(worker.id, call_id)
            self.now = max(self.now, min(self.pool.wake_at() or 0.0, self.now + 100))
            self.feed(ports.Ticked())

    def kill_and_leave(self) -> None:
        for worker in list(self.workers.values()):
            if worker.is_killed or worker.is_told or worker.is_broken:
                self.exit(worker.id)

    def assert_whole(self) -> None:
        """After calming down, every call has its end, and each app the holders that it should."""
        assert all(seen.ended for seen in self.calls.values()), "a call got no end in a kind world"
        for app, spec in self.specs.items():
            holders = sum(1 for worker in self.workers.values() if app in worker.apps and worker.ready_at is not None)
            assert holders == (self.size if spec.workers is None else spec.workers), f"{holders} workers hold {app}"
        assert all(not self.is_leaving(worker) for worker in self.workers.values())

    def assert_drains(self) -> None:
        """However we got here, a drain ends once its deadline passes and the killed are gone."""
        if self.deadline == math.inf:
            self.drain(0.0)
        for _ in range(20):
            self.wait(10.0)
            for worker in list(self.workers.values()):
                if worker.is_killed:  # nobody leaves for a polite word
                    self.exit(worker.id)
        assert self.is_drained, "the drain never ended"
        assert all(seen.ended for seen in self.calls.values())
