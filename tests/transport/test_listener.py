from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dirtybus.errors import ConfigError, DirtyConnectionError
from dirtybus.transport.listener import UnixListener, connect

STRANGER = 65534


class Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"welcome")
        transport.close()


@asynccontextmanager
async def listening(path: Path, strangers: list[int | None] | None = None) -> AsyncIterator[UnixListener]:
    listener = UnixListener(str(path), Greeter, ([] if strangers is None else strangers).append)
    await listener.open()
    try:
        yield listener
    finally:
        listener.close()
        listener.close()


async def greeting(path: Path) -> bytes:
    sock = await asyncio.to_thread(connect, str(path))
    reader, writer = await asyncio.open_connection(sock=sock)
    async with asyncio.timeout(10):
        said = await reader.read()
    writer.close()
    await writer.wait_closed()
    return said


def stale_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


async def test_the_socket_is_ours_alone_in_a_directory_that_is_ours_alone(tmp_path: Path) -> None:
    path = tmp_path / "made" / "bus.sock"
    async with listening(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert os.listdir(path.parent) == ["bus.sock"], "nothing else is left in the directory"
        assert await greeting(path) == b"welcome"
    assert os.listdir(path.parent) == []


async def test_a_directory_where_anybody_may_replace_files_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match="777"):
        await UnixListener(str(tmp_path / "s"), Greeter, lambda _: None).open()
    assert os.listdir(tmp_path) == []
    tmp_path.chmod(0o1777)  # as /tmp: only owners may
    async with listening(tmp_path / "s"):
        assert await greeting(tmp_path / "s") == b"welcome"


async def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    stale_socket(path)
    async with listening(path):
        assert await greeting(path) == b"welcome"


async def test_a_socket_where_somebody_listens_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with listening(path):
        # another process would answer; here the loop must not be the one that is asked
        with pytest.raises(ConfigError, match="another arbiter"):
            await asyncio.to_thread(asyncio.run, UnixListener(str(path), Greeter, lambda _: None).open())
        assert await greeting(path) == b"welcome"


async def test_a_socket_whose_queue_is_full_is_not_taken_for_stale(tmp_path: Path) -> None:
    path = tmp_path / "s"
    waiting = []
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        with pytest.raises(DirtyConnectionError, match="too busy"):
            for _ in range(9):
                waiting.append(await asyncio.to_thread(connect, str(path), timeout_s=0.05))
        with pytest.raises(ConfigError, match="in use"):
            await UnixListener(str(path), Greeter, lambda _: None).open()
        for sock in waiting:
            sock.close()
    assert stat.S_ISSOCK(path.stat().st_mode)


async def test_a_client_waits_for_its_place_in_a_full_queue(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        first = connect(str(path))
        late = asyncio.create_task(asyncio.to_thread(connect, str(path), timeout_s=20))
        accepted = [await asyncio.to_thread(busy.accept), await asyncio.to_thread(busy.accept)]
        second = await late
        second.sendall(b"here")
        assert accepted[1][0].recv(9) == b"here"
        for sock in (first, second, *(sock for sock, _ in accepted)):
            sock.close()


@pytest.mark.parametrize("kind", ["file", "directory", "symbolic link to a file"])
async def test_what_is_no_socket_is_refused_and_left_alone(kind: str, tmp_path: Path) -> None:
    path, file = tmp_path / "s", tmp_path / "file"
    file.write_text("precious")
    if kind == "file":
        path = file
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(file)
    with pytest.raises(ConfigError, match="not a socket"):
        await UnixListener(str(path), Greeter, lambda _: None).open()
    assert file.read_text() == "precious"
    assert path.exists()


async def test_a_directory_that_cannot_be_made_is_a_config_error_that_names_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file/s"):
        await UnixListener(str(tmp_path / "file" / "s"), Greeter, lambda _: None).open()


@pytest.mark.skipif(sys.platform != "linux", reason="the way round the limit is Linux's")
async def test_a_path_longer_than_the_system_allows_works(tmp_path: Path) -> None:
    path = tmp_path / ("d" * 100) / ("e" * 100) / "bus.sock"
    assert len(os.fsencode(path)) > 200
    async with listening(path):
        assert await greeting(path) == b"welcome"
    async with listening(path):  # also where the stale, or live, one is looked for
        with pytest.raises(ConfigError, match="another arbiter"):
            await UnixListener(str(path), Greeter, lambda _: None).open()


async def test_a_name_that_no_client_could_use_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="shorter"):
        await UnixListener(str(tmp_path / ("n" * 150)), Greeter, lambda _: None).open()
    assert os.listdir(tmp_path) == []


async def test_closing_removes_the_path_only_while_it_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with listening(path):
        path.unlink()
        stale_socket(path)
    assert path.exists(), "another one's socket was removed"
    path.unlink()
    async with listening(path):
        path.unlink()


async def test_nobody_there_is_an_error_that_names_the_path_and_the_remedy(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    for is_stale in (False, True):
        if is_stale:
            stale_socket(tmp_path / "s")
        with pytest.raises(DirtyConnectionError, match="dirtybus run") as caught:
            connect(path)
        assert caught.value.socket_path == path
        assert path in str(caught.value)


_AS_STRANGER = f"""
import os, socket, sys
os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sys.stdout.write(repr(sock.recv(100)))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_a_process_of_another_user_is_turned_away_though_it_reaches_the_socket() -> None:
    import tempfile

    strangers: list[int | None] = []
    with tempfile.TemporaryDirectory() as name:  # not pytest's own, whose parents are closed to others
        directory = Path(name)
        directory.chmod(0o711)
        path = directory / "s"
        async with listening(path, strangers):
            path.chmod(0o666)
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _AS_STRANGER, str(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            async with asyncio.timeout(20):
                said, complaint = await child.communicate()
            assert said == b"b''" or b"ConnectionResetError" in complaint, complaint
            assert strangers == [STRANGER]
            assert await greeting(path) == b"welcome"
