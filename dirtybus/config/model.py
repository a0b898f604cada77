"""The settings: frozen, checked once, in seconds and bytes. Opens no file; reads no environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Final, Literal

from dirtybus.config.app_spec import Apps, AppSpec
from dirtybus.config.extent import Extent, Extents, check_fit
from dirtybus.config.fitting import check_stop_grace
from dirtybus.config.hooks import HOOKS, Hooks
from dirtybus.config.kinds import Choice, Size, Span, Text, Texts, Variables, Whole, WholeOrAuto
from dirtybus.config.recycling import RecycleConfig
from dirtybus.config.scaling import ScalingConfig
from dirtybus.config.stash import StashConfig
from dirtybus.config.vocabulary import Fields, Vocabulary, settle_fields
from dirtybus.errors import ConfigError

__all__ = ["SETTINGS", "DirtyConfig", "GateConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateConfig:
    """How the ProcessLocker of a `DirtyBus` treats events. For a limit, None and 0 mean that there is none.

    Attributes:
        max_concurrent: how many events run at the same time; the next in line starts when one ends.
        mode: what becomes of an event that comes before preparation is over: ``hold`` it until then, or ``drop`` it.
        max_pending: how many events are held at most.
        overflow: who yields when that many are held: ``drop_new`` the new one, ``drop_old`` the oldest one, or
            ``refuse`` the new one with an error to whoever posted it.
        hold_timeout_s: how long one event is held at most; None: as long as preparation takes.
        watch_after_s: after how long a preparation that is not over is reported, with the services that are late.

    Raises:
        ConfigError: a field does not fit.
    """

    max_concurrent: Annotated[int | None, Whole(limit=True)] = 10
    mode: Annotated[Literal["hold", "drop"], Choice(("hold", "drop"))] = "hold"
    max_pending: Annotated[int | None, Whole(limit=True)] = 100_000
    overflow: Annotated[
        Literal["drop_new", "drop_old", "refuse"],
        Choice(("drop_new", "drop_old", "refuse")),
    ] = "refuse"
    hold_timeout_s: Annotated[float | None, Span(limit=True)] = None
    watch_after_s: Annotated[float, Span(least=0.1)] = 10.0

    def __post_init__(self) -> None:
        settle_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyConfig:
    """All that an owner of workers must know. Spans are in seconds; for a limit, None and 0 mean that there is none.

    The constructor takes exact types. `of` and `from_mapping` also take text such as ``"5m"``, ``"64MiB"`` and
    ``"module:Class:2"``; `dirtybus.config.sources.load_config` adds files and the environment.

    Attributes:
        apps: the apps to serve, each on all workers unless it says on how many.
        workers: how many worker processes there are. 0 is for a bus without apps.
        pool_size: from how many to how many workers there are, as the calls need them; ``workers`` is not looked at
            then. None: always ``workers``.
        placement: ``static``: a worker holds every app that has its place there; ``dynamic``: each worker holds one
            app, and which one follows the calls. It needs a ``pool_size``.
        max_idle_time_s: after how long without a call a worker beyond the least number leaves.
        scale_up_after_s: how long calls of an app wait, in an elastic pool, before one more worker is started for
            them. An app that has none gets its first at once.
        threads: how many plain actions run at the same time in one worker.
        async_concurrency: how many ``async`` actions run at the same time in one worker.
        timeout_s: how long one call may take, from when it is accepted until its answer, retries included.
        queue_timeout_s: how long one call may wait for a worker; its deadline may come earlier.
        heartbeat_timeout_s: how long a worker with calls in it may give no sign of life before it is killed.
        graceful_timeout_s: how long running and queued calls may go on after a shutdown begins; 0 cuts them at once.
        drain_delay_s: how long to go on taking work after a shutdown begins, so that whoever sends it can learn of it.
        stop_grace_s: how long the supervisor waits from its SIGTERM to its SIGKILL; checked against the spans above.
        boot_timeout_s: how long a worker may take from its start until every app's ``init()`` is done.
        cancel_grace_s: how long a call may go on after it was cancelled or its time was up; then its worker is killed.
        max_queued: how many calls of one app wait at most.
        max_queued_payload_bytes: how large the arguments of one app's waiting calls may be together.
        queue_full: what becomes of a call that comes when that much waits: ``refuse`` it with `QueueFull`, let its
            caller ``wait`` for room, or ``drop_oldest``: refuse the one that has waited longest instead.
        max_payload_bytes: how large the arguments of one call, its result, or one chunk may be.
        stream_window: how many chunks a stream may be ahead of its reader.
        stream_idle_timeout_s: how long a stream may give no chunk while its reader waits.
        crash_limit: how many workers a call may have killed when it is given up as poison.
        restart_delay_s: how long to wait before a dead worker is replaced; it doubles with each death in a row.
        restart_delay_max_s: where that doubling ends.
        healthy_after_s: how long a worker must live for its death not to count as one in a row.
        max_restarts: how many times the workers of one app may fail within ``restart_period_s``; with one more, calls
            of that app fail at once with `AppBroken`, and its workers are only tried again now and then.
        restart_period_s: the span in which those are counted.
        max_surge: how many workers a reload may have beyond ``workers``.
        max_unavailable: how many workers a reload may stop before their successors are ready.
        max_starting: how many workers boot at the same time, where memory or disk is short; the others wait.
        compute_threads: how many threads BLAS, OpenMP and ONNX Runtime use in each worker; ``auto``: the cores of this
            process divided by the workers that there may be; None leaves it to them.
        socket: the Unix socket for other processes; None: one in the runtime directory, called after ``name``.
        name: what this instance is called: letters, digits, ``.``, ``_`` and ``-``.
        env: environment variables for the workers, beyond the owner's own.
        pythonpath: directories that the workers look for apps in first.
        restart_dirs: directories where touching ``restart.txt`` has the workers reloaded, and ``always_restart.txt``
            does so as long as it is there.
        restart_look_s: how often those are looked at, at most; only when calls come.
        hooks: what to call when: ``on_dirty_starting`` and ``dirty_worker_exit`` run in the owner and are callables
            or import paths; ``dirty_post_fork`` and ``dirty_worker_init`` run in the worker and are import paths, or
            top-level functions of a module, which stand for theirs.
        scaling: whether the load is looked at ahead of calls that wait, in an elastic pool.
        recycle: after how many calls, how long and with how much memory a worker is replaced.
        gate: how events are held, paced and dropped before they run.
        stash: how large the shared tables may grow, how long they keep what, and where they are persisted.

    Raises:
        ConfigError: a field does not fit, or two do not fit together; the message names them and the remedy.
    """

    apps: Annotated[tuple[AppSpec, ...], Apps()] = ()
    workers: Annotated[int, Whole(least=0)] = 1
    pool_size: Annotated[Extent | None, Extents()] = None
    placement: Annotated[Literal["static", "dynamic"], Choice(("static", "dynamic"))] = "static"
    max_idle_time_s: Annotated[float | None, Span(limit=True)] = 300.0
    scale_up_after_s: Annotated[float, Span()] = 0.1
    threads: Annotated[int, Whole()] = 1
    async_concurrency: Annotated[int, Whole()] = 1000
    timeout_s: Annotated[float | None, Span(limit=True)] = 300.0
    queue_timeout_s: Annotated[float | None, Span(limit=True)] = None
    heartbeat_timeout_s: Annotated[float | None, Span(limit=True)] = 60.0
    graceful_timeout_s: Annotated[float, Span()] = 30.0
    drain_delay_s: Annotated[float, Span()] = 0.0
    stop_grace_s: Annotated[float | None, Span(limit=True)] = None
    boot_timeout_s: Annotated[float | None, Span(limit=True)] = 120.0
    cancel_grace_s: Annotated[float, Span()] = 5.0
    max_queued: Annotated[int, Whole()] = 100_000
    max_queued_payload_bytes: Annotated[int, Size(least=1024, most=2**63 - 1)] = 1024 * 1024 * 1024
    queue_full: Annotated[
        Literal["refuse", "wait", "drop_oldest"],
        Choice(("refuse", "wait", "drop_oldest")),
    ] = "refuse"
    # a frame says its length in 32 bits; below a kibibyte not even an error's text would pass
    max_payload_bytes: Annotated[int, Size(least=1024, most=2**32 - 1)] = 64 * 1024 * 1024
    stream_window: Annotated[int, Whole()] = 32
    stream_idle_timeout_s: Annotated[float | None, Span(limit=True)] = None
    crash_limit: Annotated[int, Whole()] = 2
    restart_delay_s: Annotated[float, Span()] = 0.5
    restart_delay_max_s: Annotated[float, Span()] = 30.0
    healthy_after_s: Annotated[float, Span()] = 10.0
    max_restarts: Annotated[int | None, Whole(limit=True)] = 5
    restart_period_s: Annotated[float, Span(least=0.1)] = 60.0
    max_surge: Annotated[int, Whole(least=0)] = 1
    max_unavailable: Annotated[int, Whole(least=0)] = 0
    max_starting: Annotated[int | None, Whole(limit=True)] = None
    compute_threads: Annotated[int | Literal["auto"] | None, WholeOrAuto(limit=True)] = 1
    socket: Annotated[str | None, Text(pattern=r"[^\0]+", wanted="the path of a socket", optional=True)] = None
    name: Annotated[
        str,
        Text(pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", wanted="1 to 64 letters, digits, '.', '_' and '-'"),
    ] = "dirtybus"
    # not shown: variables carry secrets
    env: Annotated[Mapping[str, str], Variables()] = field(default_factory=dict, repr=False)
    pythonpath: Annotated[tuple[str, ...], Texts()] = ()
    restart_dirs: Annotated[tuple[str, ...], Texts()] = ()
    restart_look_s: Annotated[float, Span()] = 5.0
    hooks: Annotated[Mapping[str, object], Hooks()] = field(default_factory=dict)
    scaling: Annotated[ScalingConfig, Fields(ScalingConfig)] = field(default_factory=ScalingConfig)
    recycle: Annotated[RecycleConfig, Fields(RecycleConfig)] = field(default_factory=RecycleConfig)
    gate: Annotated[GateConfig, Fields(GateConfig)] = field(default_factory=GateConfig)
    stash: Annotated[StashConfig, Fields(StashConfig)] = field(default_factory=StashConfig)

    def __post_init__(self) -> None:
        settle_fields(self)
        self._check_extent()
        if self.restart_delay_max_s < self.restart_delay_s:
            raise ConfigError(
                f"restart_delay_max_s is {self.restart_delay_max_s:g} but restart_delay_s is {self.restart_delay_s:g}; "
                f"raise restart_delay_max_s to {self.restart_delay_s:g} or more"
            )
        if not (self.max_surge or self.max_unavailable):
            raise ConfigError(
                "max_surge and max_unavailable are both 0, so a reload could never begin; set one of them to 1 or more"
            )
        check_stop_grace(self)

    def _check_extent(self) -> None:
        if self.pool_size is None and self.placement == "dynamic":
            raise ConfigError("placement is 'dynamic' but the pool has no pool_size; set one, such as '1-8'")
        if self.pool_size is not None and self.workers != 1:
            raise ConfigError(
                f"workers is {self.workers} but pool_size says {self.pool_size[0]}-{self.pool_size[1]}; keep one of "
                "the two"
            )
        if self.pool_size is None and self.scaling.policy != "none":
            raise ConfigError(
                f"scaling.policy is {self.scaling.policy!r} but the pool has no pool_size to move in; set one, such as "
                "'1-8'"
            )
        self.check_apps(self.apps)

    def check_apps(self, specs: Sequence[AppSpec]) -> None:
        """Refuse apps that can never be served with these settings.

        Raises:
            ConfigError: names the app and the remedy.
        """
        check_fit(specs, self.workers, self.pool_size, is_dynamic=self.placement == "dynamic")

    @classmethod
    def of(cls, *apps: str | AppSpec | type, **settings: object) -> DirtyConfig:
        """Make settings from friendly forms: ``DirtyConfig.of("shop.ml:Model:2", workers=4, timeout="5m")``.

        Args:
            *apps: the apps, if they are not given as ``apps=``. A class stands for its import path.
            **settings: as in `from_mapping`.

        Raises:
            ConfigError: as in `from_mapping`.
        """
        if apps and "apps" in settings:
            raise ConfigError("apps are given both as arguments and as apps=…; keep one of the two")
        return cls.from_mapping({"apps": apps, **settings} if apps else settings, source="arguments")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object], *, source: str = "settings") -> DirtyConfig:
        """Make settings from a mapping.

        Args:
            mapping: each key is a setting, with or without its unit (``timeout_s``, ``timeout``), or gunicorn's name
                for it (``dirty_timeout``, ``dirty_worker_exit``). Spans may be text (``"5m"``, ``"300ms"``,
                ``"1h30m"``), sizes too (``"512MB"``, ``"64MiB"``), and ``"none"`` is no limit.
            source: where the mapping comes from; messages say it.

        Raises:
            ConfigError: an unknown key, the same setting twice, or a value that does not fit.
        """
        return SETTINGS.build(SETTINGS.read(mapping, source=source))


_GUNICORN_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "dirty_apps": "apps",
        "dirty_workers": "workers",
        "dirty_threads": "threads",
        "dirty_timeout": "timeout_s",
        "dirty_graceful_timeout": "graceful_timeout_s",
        **{hook: f"hooks.{hook}" for hook in HOOKS},
    }
)
SETTINGS: Final = Vocabulary(DirtyConfig, also=_GUNICORN_NAMES)
