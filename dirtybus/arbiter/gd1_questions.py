"""What a GD v1 client asks of the arbiter itself, in our words, and our answers in gunicorn's. Knows no connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from dirtybus.config import DirtyConfig
from dirtybus.errors import DirtyError, StashError, StashKeyNotFoundError
from dirtybus.protocol.codec import decode_body, encode_body
from dirtybus.protocol.gd1_messages import Manage, ManageVerb, StashAsk, StashVerb
from dirtybus.stash.glob import compile_glob
from dirtybus.stash.key import key_bytes
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp
from dirtybus.stash.ops_entries import Delete, Exists, Get, Put
from dirtybus.stash.ops_many import Clear, DeleteTable, Ensure, Info, Page, Tables

__all__ = ["SERVER", "Managed", "managed", "stash_op", "stash_result", "status_result"]

#: By this name in the status a client of ours knows that it may speak natively.
SERVER: Final = "dirtybus"
_VERBS: Final[Mapping[int, str]] = {verb: verb.name.lower() for verb in StashVerb}
_ALWAYS_TRUE: Final = frozenset({"put", "clear", "ensure"})
#: More at once is a slip of the finger, and each one is a process.
_MOST_WORKERS_AT_ONCE: Final = 256


class Managed(Protocol):
    """Whoever has workers to count and change."""

    config: DirtyConfig

    def status(self) -> Mapping[str, Any]: ...
    def manage(self, verb: str, arguments: Mapping[str, Any]) -> Any: ...


# --- stash --------------------------------------------------------------------------------------------------------


def stash_op(ask: StashAsk) -> StashOp:
    """Return the operation that ``ask`` means.

    Raises:
        StashError: no such verb, or a key that cannot be one.
    """
    verb = _VERBS.get(ask.verb)
    if verb is None:
        raise StashError(f"there is no stash operation {ask.verb}; there are 1 (put) to {len(_VERBS)} (exists)")
    return _OPS[verb](ask)


# gunicorn leaves a key or value of None out of the message, so for put, get and delete no key is the key None
_OPS: Final[Mapping[str, Callable[[StashAsk], StashOp]]] = {
    "put": lambda ask: Put(ask.table, _key(ask), b"".join(encode_body(ask.value, root="value"))),
    "get": lambda ask: Get(ask.table, _key(ask)),
    "delete": lambda ask: Delete(ask.table, _key(ask)),
    "exists": lambda ask: Exists(ask.table, None if ask.key is None else _key(ask)),
    "keys": lambda ask: Page(ask.table, most=10_000),
    "clear": lambda ask: Clear(ask.table),
    "info": lambda ask: Info(ask.table),
    "ensure": lambda ask: Ensure(ask.table),
    "delete_table": lambda ask: DeleteTable(ask.table),
    "tables": lambda _: Tables(),
}


def stash_result(ask: StashAsk, reply: StashReply) -> Any:
    """Return what gunicorn's stash client expects for ``reply``.

    Raises:
        StashKeyNotFoundError: get found nothing. The client turns exactly this class into its default.
    """
    match _VERBS[ask.verb]:
        case "get":
            if reply.value is None:
                raise StashKeyNotFoundError(ask.table, ask.key)
            return decode_body(reply.value)
        case "keys":
            return _matching(reply, ask.pattern)
        case "info":
            return dict(reply.info or {})
        case "tables":
            return list(reply.names)
        case verb:
            return verb in _ALWAYS_TRUE or reply.is_true


def _matching(reply: StashReply, pattern: str | None) -> list[Any]:
    """Return the keys; gunicorn matches a pattern against the text of keys that are no text, too."""
    keys = [decode_body(key) for key in reply.keys]
    if pattern is None:
        return keys
    glob = compile_glob(pattern)
    return [key for key in keys if glob.fullmatch(str(key))]


def _key(ask: StashAsk) -> bytes:
    return key_bytes(_hashable(ask.key))


def _hashable(key: object) -> object:
    """Return a key that was a tuple before GD v1 made it a list."""
    return tuple(map(_hashable, key)) if isinstance(key, list) else key


# --- workers ------------------------------------------------------------------------------------------------------


def status_result(arbiter: Managed) -> dict[str, Any]:
    """Return gunicorn's status, and `SERVER`."""
    status = arbiter.status()
    workers = [_worker(worker) for worker in status["workers"]]
    return {
        "arbiter_pid": status["pid"],
        "workers": sorted(workers, key=lambda worker: worker["age"]),
        "worker_count": len(workers),
        "apps": [spec.path for spec in arbiter.config.apps],
        "server": SERVER,
    }


def _worker(worker: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "pid": worker["pid"],
        "age": worker["worker"],  # gunicorn's word for a number that counts up
        "apps": list(worker["apps"]),
        "booted": worker["state"] not in {"booting", "killed"},
        "last_heartbeat": None,  # there is none: the end of its link tells at once that a worker died
    }


def managed(arbiter: Managed, ask: Manage) -> dict[str, Any]:
    """Add or remove workers as ``ask`` says and return gunicorn's answer.

    Raises:
        DirtyError: no such operation, or too many workers at once.
    """
    if ask.verb not in set(ManageVerb):
        raise DirtyError(f"Unknown manage operation: {ask.verb}")
    if ask.count > _MOST_WORKERS_AT_ONCE:
        raise DirtyError(f"at most {_MOST_WORKERS_AT_ONCE} workers are added or removed at once, not {ask.count}")
    before = arbiter.status()["target"]
    adds = ask.verb == ManageVerb.ADD
    # gunicorn never removes the last one
    wanted = before + ask.count if adds else max(1, before - ask.count)
    answer = arbiter.manage("scale", {"workers": wanted})
    reached = answer["workers"]
    changed = max(0, reached - before if adds else before - reached)
    result = {
        "success": True,
        "operation": "add" if adds else "remove",
        "requested": ask.count,
        "spawned" if adds else "removed": changed,
        "total_workers": len(arbiter.status()["workers"]),
        "target_workers": reached,
    }
    if changed < ask.count and answer.get("note"):
        result["reason"] = answer["note"]
    return result
