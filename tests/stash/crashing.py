"""Run as a process: writes to a stash and prints each number when it was acknowledged, until it is killed."""

from __future__ import annotations

import asyncio
import sys

from dirtybus.config.stash import StashConfig
from dirtybus.stash import AsyncLocalPort, AsyncStash, LocalPort
from dirtybus.stash.host import StashHost
from dirtybus.stash.keeper import Keeper


async def _write(stash: AsyncStash, lane: int) -> None:
    number = await stash.get("numbers", lane, 0)
    if await stash.size("log", lane) < number:  # it was killed in between
        await stash.push("log", lane, number)
    while True:
        number += 1
        async with stash.transaction() as tx:
            tx.put("numbers", lane, number)
            tx.put("twins", lane, number)
        await stash.push("log", lane, number)
        print(lane, number, flush=True)


async def main(path: str, lanes: int) -> None:
    keeper = Keeper(StashConfig(persist=path, durability="sync"))
    host = StashHost(keeper)
    await host.start()
    stash = AsyncStash(AsyncLocalPort(LocalPort(keeper)))
    print("ready", keeper.state.tables.book.version, flush=True)
    await asyncio.gather(*(_write(stash, lane) for lane in range(lanes)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
