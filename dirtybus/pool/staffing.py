"""Who is started, replaced, told to leave and killed. Never learns which calls wait; it is told for whom they do.

A worker is replaced by an heir: it boots beside the holder of the seat, takes the seat when it is ready, and the
holder is let go. So a reload, and an app that comes back after its circuit was open, cost no call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import ports
from dirtybus.pool.circuit import Circuits
from dirtybus.pool.drain import Drain
from dirtybus.pool.elastic import Elastic
from dirtybus.pool.layout import Layout
from dirtybus.pool.model import Phase, Worker, WorkerId
from dirtybus.pool.placement import Apps
from dirtybus.pool.ports import KillReason
from dirtybus.pool.queue import CallQueue
from dirtybus.pool.recycling import Recycling
from dirtybus.pool.restarts import Jitter
from dirtybus.pool.rollout import Rollout
from dirtybus.pool.room import Room
from dirtybus.pool.roster import Roster
from dirtybus.pool.seats import Seat

__all__ = ["Staffing"]


class Staffing:
    """Books lives in the roster and hands the orders that go with them to ``order``.

    Args:
        queue: the calls that wait. They are counted here, never touched.

    Raises:
        ConfigError: the specs do not fit on ``config.workers`` seats.
    """

    def __init__(
        self,
        config: DirtyConfig,
        specs: Sequence[AppSpec],
        drain: Drain,
        *,
        jitter: Jitter | None,
        threads_by_app: Mapping[str, int] | None,
        order: Callable[[ports.Order], None],
        queue: CallQueue,
    ) -> None:
        self.config = config
        self.roster = Roster(config, specs, jitter=jitter, threads_by_app=threads_by_app)
        self.circuits = Circuits(config)
        self._room = Room(config, self.roster)
        self.recycling = Recycling(config, jitter)
        self._drain = drain
        self._order = order
        self._queue = queue
        self.elastic = self._made_elastic()
        self._rollout: Rollout | None = None
        #: sizes that were asked for during a reload, which comes first
        self._postponed: list[ports.Resized | ports.Bounded] = []
        #: some worker may lack an app that its seat is for
        self._is_reduced = False

    @property
    def size(self) -> int:
        """How many workers are aimed at."""
        asked = [fact.size for fact in self._postponed if isinstance(fact, ports.Resized) and fact.app is None]
        return max(asked[-1], self.roster.seats.smallest_size) if asked else self.roster.seats.size

    @property
    def layout(self) -> Layout:
        """Between which numbers of workers it goes, and what each may hold."""
        return self.roster.seats.layout

    @property
    def is_calm(self) -> bool:
        """Whether nobody is being replaced or about to leave."""
        is_staying = not self._is_reduced and not self.recycling.worn and not self.roster.has_leavers
        return self._rollout is None and is_staying

    def next_due_at(self, now: float) -> float:
        """Return when time alone next makes something due; infinite when never."""
        moments = [self.roster.next_kill_at(), self.roster.seats.next_spawn_at(), self.circuits.next_probe_at(now)]
        moments.append(self.recycling.next_at())
        if self._is_reduced or self.recycling.worn:
            moments += [seat.spawn_at for seat in self.roster.seats if now < seat.spawn_at and not seat.is_vacant]
        if self.elastic is not None and self._rollout is None and not self._drain.is_begun:
            moments.append(self.elastic.due_at)
        return min((at for at in moments if at is not None), default=math.inf)

    def is_restless(self, now: float) -> bool:
        """Say whether the calls that wait ask for a decision on the size of the pool."""
        return self.elastic is not None and self.elastic.is_restless(now)

    def note_use(self, worker: Worker, app: str, now: float) -> float:
        """Book that a call ended in the worker; returns when to look again, infinite when nothing follows."""
        return math.inf if self.elastic is None else self.elastic.note_use(worker, app, now)

    def why_not(self, size: int, app: str | None = None) -> str | None:
        """Return the sentence that forbids ``size`` workers, or instances of the app; None when it is allowed."""
        return self.roster.why_not(size) if self.elastic is None else self.elastic.why_not(size, app)

    # --- facts ---

    def note_ready(self, worker_id: WorkerId, now: float) -> Worker | None:
        """Book the end of a boot; None when the worker is not booting any more."""
        worker = self.roster.mark_ready(worker_id, now)
        if worker is None:
            return None
        self.recycling.note_ready(worker_id, now)
        for app in worker.apps:
            if self.circuits.close(app):
                self._order(ports.ReportCircuit(app, is_open=False))
        rollout = self._rollout
        if rollout is not None and worker.generation == rollout.generation and not rollout.is_committed:
            self._commit(rollout)
        return worker

    def note_boot_failure(self, worker_id: WorkerId, now: float) -> None:
        """Book that a worker cannot boot; its exit will follow."""
        if worker := self.roster.mark_broken(worker_id):
            self._expect_exit(worker, now)

    def bury(self, fact: ports.Exited, now: float) -> Worker | None:
        """Book an exit, and who is to blame for it. None when the worker is unknown."""
        worker = self.roster.bury(fact.worker, now)
        if worker is None:
            return None
        self.recycling.forget(worker.id)
        rollout = self._rollout
        is_new = rollout is not None and worker.generation == rollout.generation
        if is_new and worker.ready_at is None and not worker.is_leaving:
            self._end_rollout(ports.ReportReload(worker.generation, worker.id, is_done=False))
        elif self._is_failure(worker, now):
            for app in (each for each in fact.blamed or worker.apps if each not in worker.answered):
                if self.circuits.fail(app, now):
                    self._order(ports.ReportCircuit(app, is_open=True))
        self.circuits.end_probe(worker.id, now)
        return worker

    def resize(self, fact: ports.Resized | ports.Bounded) -> None:
        """Aim at another number of workers, or go by other limits; during a reload, once that is over."""
        if self._rollout is not None:
            self._postponed.append(fact)
        elif self.elastic is None:
            if isinstance(fact, ports.Resized) and fact.app is None:
                self.roster.resize(fact.size)
        elif isinstance(fact, ports.Resized):
            self.elastic.aim(fact.size, fact.app)
        else:
            self.elastic.bound(fact.least, fact.most)

    def begin_reload(self, fact: ports.ReloadBegun) -> None:
        """Begin to replace every worker; refused while another reload is under way, or a drain."""
        if self._drain.is_begun or self._rollout is not None:
            self._order(ports.ReportReload(fact.generation, is_done=False))
            return
        layout = Layout.of(fact.config, fact.specs, fact.size)
        held = [seat.apps for seat in self.roster.seats.staying()]
        self._rollout = Rollout(fact, layout, layout.replan(held) if layout.is_elastic else layout.plan(fact.size))
        self._dismiss_heirs()  # or one of the generation before would follow one of the new
        self.roster.admit_generation(fact.generation, fact.config, fact.specs, fact.threads_by_app)
        if not self._places(self._rollout):
            self._commit(self._rollout)  # nobody can fail to boot

    def begin_drain(self, now: float) -> None:
        """Book that all are to leave; a reload is given up."""
        if self._rollout is not None:
            self._end_rollout(ports.ReportReload(self._rollout.generation, is_done=False))
        for worker in self.roster:
            if worker.phase is Phase.DRAINING and worker.kill_at is not None:
                self.roster.kill_by(worker, self._drain.last_moment(now))

    # --- consequences ---

    def kill_overdue(self, now: float) -> None:
        """Kill those that did not boot or leave in time."""
        for worker in self.roster.take_overdue(now):
            is_booting = worker.phase is Phase.BOOTING
            self.kill(worker, KillReason.BOOT_TIMEOUT if is_booting else KillReason.RETIRE_TIMEOUT)

    def kill(self, worker: Worker, why: KillReason) -> None:
        """Kill the worker unless that was ordered already."""
        if worker.phase is not Phase.KILLED:
            self.roster.kill(worker)
            self._order(ports.Kill(worker.id, why))

    def settle(self, now: float) -> None:
        """Tell those to leave who have nothing to do here any more, and start those that are missing."""
        if not self._drain.is_begun:
            self._roll(now)
            self._probe(now)
            self._restore(now)
            self._recycle(now)
        self._size(now)
        self._dismiss(now)
        self._fill(now)

    def check(self) -> None:
        """Raise AssertionError naming what does not add up."""
        self.roster.check()
        self.circuits.check(worker.id for worker in self.roster)
        if self._rollout is not None or self._is_reduced or self._drain.is_begun:
            return
        for seat in self.roster.seats.staying():
            holder = self.roster.holder(seat)
            if holder is None or holder.is_leaving:
                continue
            lacks = set(seat.apps) - set(holder.apps)
            assert not lacks, f"seat {seat.index} lacks {lacks} for good"

    def _size(self, now: float) -> None:
        """In an elastic pool, follow the calls that wait; while a reload or a drain goes on, only where nobody is."""
        if self.elastic is not None and (self._rollout is None or self._rollout.is_committed):
            self.elastic.settle(now, may_shrink=self._rollout is None and not self._drain.is_begun)

    def _dismiss(self, now: float) -> None:
        if self._drain.is_begun:
            for worker in self.roster:
                if not worker.running and not self._queue.has_work_for(worker.apps):
                    self.roster.let_go(worker)
        for worker in self.roster.take_idle_leavers():
            self._order(ports.Retire(worker.id))
            self._expect_exit(worker, now)

    def _fill(self, now: float) -> None:
        seats = self.roster.seats
        for seat in seats.take_due(now):
            apps = self._possible(seat)
            is_needed = apps and self._room.has_place() and (not self._drain.is_begun or self._queue.has_work_for(apps))
            if is_needed and self._rollout is None:
                self._spawn(seat, apps, now, generation=self.roster.current)
            else:
                seats.rest(seat)

    # --- a reload ---

    def _roll(self, now: float) -> None:
        rollout = self._rollout
        if rollout is None:
            return
        most = max(len(rollout.plan), len(self.roster.seats.staying())) + rollout.wanted.config.max_surge
        outdated = [(seat, apps) for seat, apps in self._places(rollout) if not self._is_new(seat)]
        for seat, apps in outdated:
            may_start = not (seat.is_vacant and rollout.is_committed) or seat.spawn_at <= now
            if seat.heir is None and may_start and len(self.roster) < most and self._room.may_start():
                self._spawn(seat, apps, now, generation=rollout.generation, as_heir=True)
        for seat, _ in outdated:
            holder = self.roster.holder(seat)
            if seat.heir is None and holder is not None and self._is_spare(holder, rollout):
                self.roster.open_seat(holder)
        if rollout.is_committed and all(self._has_new_ready(seat) for seat, _ in self._places(rollout)):
            self._end_rollout(ports.ReportReload(rollout.generation))

    def _commit(self, rollout: Rollout) -> None:
        """The new generation works: its settings and places hold from now on."""
        rollout.is_committed = True
        fact = rollout.wanted
        self.config = fact.config
        self.roster.reconfigure(rollout.generation, fact.config, rollout.layout, rollout.plan)
        self.elastic = self._made_elastic()
        self._room.reconfigure(fact.config)
        self.recycling.reconfigure(fact.config)
        self.circuits.reconfigure(fact.config, (spec.path for spec in fact.specs))
        self._order(ports.CommitReload(rollout.generation))

    def _end_rollout(self, report: ports.ReportReload) -> None:
        rollout, self._rollout = self._rollout, None
        assert rollout is not None
        self._dismiss_heirs()
        if self.elastic is not None:
            self.roster.give_up([seat for seat in self.roster.seats.staying() if not seat.apps])
        elif report.is_done:
            self.roster.trim(len(rollout.plan))
        elif rollout.is_committed:
            self.roster.seats.keep(len(rollout.plan))
        self._order(report)
        postponed, self._postponed = self._postponed, []
        for fact in postponed:
            self.resize(fact)
        self._is_reduced = True  # somebody may have been left with other apps than its seat is for: look once

    def _places(self, rollout: Rollout) -> list[tuple[Seat, Apps]]:
        return rollout.places(self.roster.seats.staying())

    def _is_new(self, seat: Seat) -> bool:
        holder = self.roster.holder(seat)
        return holder is not None and self._rollout is not None and holder.generation == self._rollout.generation

    def _has_new_ready(self, seat: Seat) -> bool:
        holder = self.roster.holder(seat)
        return holder is not None and self._is_new(seat) and holder.phase is Phase.READY

    def _dismiss_heirs(self) -> None:
        for seat in list(self.roster.seats):
            heir = None if seat.heir is None else self.roster.get(seat.heir)
            if heir is not None:
                self.roster.open_seat(heir, seat.spawn_at)  # the seat need not wait for its end

    def _is_spare(self, holder: Worker, rollout: Rollout) -> bool:
        """Say whether the holder may go before its heir is ready: enough others are, for each of its apps too."""
        ready = [worker for worker in self.roster if worker.phase is Phase.READY]
        kept = {spec.path for spec in rollout.wanted.specs}.intersection(holder.apps)
        others = {app for worker in ready if worker is not holder for app in worker.apps}
        is_covered = kept <= others or not rollout.wanted.config.max_surge  # without a surge there is no other way
        fewest = rollout.fewest_ready(self.roster.seats.staying())
        return holder.phase is Phase.READY and len(ready) > fewest and is_covered

    # --- apps whose circuit was open ---

    def _probe(self, now: float) -> None:
        if self._rollout is not None:
            return
        for app in list(self.circuits.due(now)):
            seat = self._seat_without(app)
            if seat is None and self.elastic is not None and self.elastic.seat_for(app, now):
                seat = self._seat_without(app)
            if seat is not None and self._room.has_place_on(seat, self.size):
                apps = tuple(one for one in seat.apps if one == app or one in self._possible(seat))
                worker = self._spawn(seat, apps, now, generation=self.roster.current, as_heir=not seat.is_vacant)
                self.circuits.begin_probe(app, worker.id)

    def _seat_without(self, app: str) -> Seat | None:
        """Return a seat for the app whose holder, if any, lacks it; vacant ones first."""
        able = [seat for seat in self.roster.seats.staying() if app in seat.apps and seat.heir is None]
        for seat in sorted(able, key=lambda seat: not seat.is_vacant):
            holder = self.roster.holder(seat)
            if holder is None or app not in holder.apps:
                return seat
        return None

    def _restore(self, now: float) -> None:
        """Give their apps back to the seats whose workers lack some, one after the other."""
        if not self._is_reduced or self._rollout is not None:
            return
        self._is_reduced = bool(self.circuits.open_apps)
        for seat in self.roster.seats.staying():
            holder = self.roster.holder(seat)
            if holder is None or holder.is_leaving or set(holder.apps) >= set(self._possible(seat)):
                continue
            self._is_reduced = True
            if seat.heir is None and seat.spawn_at <= now and self._room.has_place_for_heir(self.size):
                self._spawn(seat, self._possible(seat), now, generation=self.roster.current, as_heir=True)

    def _recycle(self, now: float) -> None:
        """Replace the workers that are worn, as many at a time as there is room for beside those that stay."""
        self.recycling.pass_time(now)
        if self._rollout is not None:
            return
        for worker_id in list(self.recycling.worn):
            worker = self.roster.get(worker_id)
            seat = None if worker is None else self.roster.seat_of(worker)
            if worker is None or seat is None or worker.phase is not Phase.READY:
                self.recycling.forget(worker_id)
            elif seat.heir is None and seat.spawn_at <= now and self._room.has_place_for_heir(self.size):
                apps = self._possible(seat)
                if set(apps) >= set(worker.apps):
                    self._spawn(seat, apps, now, generation=self.roster.current, as_heir=True)

    def _possible(self, seat: Seat) -> Apps:
        """Return what a worker on the seat can hold now."""
        return tuple(app for app in seat.apps if not self.circuits.is_open(app))

    # --- small parts ---

    def _made_elastic(self) -> Elastic | None:
        layout = self.roster.seats.layout
        is_broken = self.circuits.is_open
        return Elastic(self.config, layout, self.roster, self._queue, is_broken) if layout.is_elastic else None

    def _spawn(self, seat: Seat, apps: Apps, now: float, *, generation: int, as_heir: bool = False) -> Worker:
        worker = self.roster.seat_worker(seat, apps, now, generation=generation, as_heir=as_heir)
        self._is_reduced = self._is_reduced or (apps != seat.apps and self._rollout is None)
        self._order(ports.Spawn(worker.id, apps, generation))
        return worker

    def _is_failure(self, worker: Worker, now: float) -> bool:
        """Say whether a death speaks against an app: nobody wanted it, and the worker had not lived for long."""
        if worker.is_leaving or (worker.phase is Phase.KILLED and worker.ready_at is not None):
            return False
        return worker.ready_at is None or now - worker.ready_at < self.config.healthy_after_s

    def _expect_exit(self, worker: Worker, now: float) -> None:
        self.roster.kill_by(worker, min(now + self.config.graceful_timeout_s, self._drain.last_moment(now)))
