from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.arbiter.serving import serving

ROOT = Path(__file__).parents[2]


async def test_a_forked_child_gets_a_connection_of_its_own_and_leaves_its_parents_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "a.sock")
    async with serving(socket=path, workers=2):
        program = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.client.forking", path, cwd=ROOT)
        async with asyncio.timeout(30):
            assert await program.wait() == 0
