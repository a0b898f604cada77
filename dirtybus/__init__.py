"""dirtybus: an event bus whose heavy work runs in isolated, stateful worker processes.

Names are loaded on first use (PEP 562), so that a worker, a probe or a client loads only what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dirtybus.version import __version__

_WHERE = {
    "ActionNotFound": "errors",
    "AppBroken": "errors",
    "AppSpec": "config",
    "Arbiter": "arbiter.arbiter",
    "AsyncStash": "stash",
    "Batch": "batch",
    "BootFailed": "errors",
    "CallCancelled": "errors",
    "CallContext": "app",
    "ChunkArrived": "events",
    "CircuitClosed": "events",
    "CircuitOpened": "events",
    "ConfigError": "errors",
    "DirtyApp": "app",
    "DirtyAppError": "errors",
    "DirtyAppNotFoundError": "errors",
    "DirtyBus": "bus",
    "DirtyClient": "client",
    "DirtyConfig": "config",
    "DirtyConnectionError": "errors",
    "DirtyError": "errors",
    "DirtyNoWorkersAvailableError": "errors",
    "DirtyTimeoutError": "errors",
    "DrainBegun": "events",
    "DrainEnded": "events",
    "Draining": "errors",
    "EncodeError": "errors",
    "EventDropped": "events",
    "ExecutionFailed": "events",
    "ExecutionRequested": "events",
    "ExecutionSucceeded": "events",
    "GateConfig": "config",
    "InferenceRequested": "events",
    "PoisonCall": "errors",
    "ProcessLocker": "locker",
    "QueueFull": "errors",
    "ReloadEnded": "events",
    "ReloadRequested": "events",
    "ScaleRequested": "events",
    "ShutdownRequested": "events",
    "StashChanged": "events",
    "StashConfig": "config",
    "TableConfig": "config",
    "Unavailable": "errors",
    "WorkerExited": "events",
    "WorkerLost": "errors",
    "WorkerReady": "events",
    "WorkerSpawned": "events",
    "action": "app",
    "close_dirty_client": "client",
    "close_dirty_client_async": "client",
    "current_call": "app",
    "get_dirty_client": "client",
    "get_dirty_client_async": "client",
}

__all__ = ["__version__", "stash", *_WHERE]


def __getattr__(name: str) -> Any:
    if name == "stash":
        return importlib.import_module("dirtybus.stash")
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'dirtybus' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dirtybus.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from dirtybus import stash as stash
    from dirtybus.app import CallContext as CallContext
    from dirtybus.app import DirtyApp as DirtyApp
    from dirtybus.app import action as action
    from dirtybus.app import current_call as current_call
    from dirtybus.arbiter.arbiter import Arbiter as Arbiter
    from dirtybus.batch import Batch as Batch
    from dirtybus.bus import DirtyBus as DirtyBus
    from dirtybus.client import DirtyClient as DirtyClient
    from dirtybus.client import close_dirty_client as close_dirty_client
    from dirtybus.client import close_dirty_client_async as close_dirty_client_async
    from dirtybus.client import get_dirty_client as get_dirty_client
    from dirtybus.client import get_dirty_client_async as get_dirty_client_async
    from dirtybus.config import AppSpec as AppSpec
    from dirtybus.config import DirtyConfig as DirtyConfig
    from dirtybus.config import GateConfig as GateConfig
    from dirtybus.config import StashConfig as StashConfig
    from dirtybus.config import TableConfig as TableConfig
    from dirtybus.errors import ActionNotFound as ActionNotFound
    from dirtybus.errors import AppBroken as AppBroken
    from dirtybus.errors import BootFailed as BootFailed
    from dirtybus.errors import CallCancelled as CallCancelled
    from dirtybus.errors import ConfigError as ConfigError
    from dirtybus.errors import DirtyAppError as DirtyAppError
    from dirtybus.errors import DirtyAppNotFoundError as DirtyAppNotFoundError
    from dirtybus.errors import DirtyConnectionError as DirtyConnectionError
    from dirtybus.errors import DirtyError as DirtyError
    from dirtybus.errors import DirtyNoWorkersAvailableError as DirtyNoWorkersAvailableError
    from dirtybus.errors import DirtyTimeoutError as DirtyTimeoutError
    from dirtybus.errors import Draining as Draining
    from dirtybus.errors import EncodeError as EncodeError
    from dirtybus.errors import PoisonCall as PoisonCall
    from dirtybus.errors import QueueFull as QueueFull
    from dirtybus.errors import Unavailable as Unavailable
    from dirtybus.errors import WorkerLost as WorkerLost
    from dirtybus.events import ChunkArrived as ChunkArrived
    from dirtybus.events import CircuitClosed as CircuitClosed
    from dirtybus.events import CircuitOpened as CircuitOpened
    from dirtybus.events import DrainBegun as DrainBegun
    from dirtybus.events import DrainEnded as DrainEnded
    from dirtybus.events import EventDropped as EventDropped
    from dirtybus.events import ExecutionFailed as ExecutionFailed
    from dirtybus.events import ExecutionRequested as ExecutionRequested
    from dirtybus.events import ExecutionSucceeded as ExecutionSucceeded
    from dirtybus.events import InferenceRequested as InferenceRequested
    from dirtybus.events import ReloadEnded as ReloadEnded
    from dirtybus.events import ReloadRequested as ReloadRequested
    from dirtybus.events import ScaleRequested as ScaleRequested
    from dirtybus.events import ShutdownRequested as ShutdownRequested
    from dirtybus.events import StashChanged as StashChanged
    from dirtybus.events import WorkerExited as WorkerExited
    from dirtybus.events import WorkerReady as WorkerReady
    from dirtybus.events import WorkerSpawned as WorkerSpawned
    from dirtybus.locker import ProcessLocker as ProcessLocker
    from dirtybus.stash import AsyncStash as AsyncStash
