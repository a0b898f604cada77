"""Where an instance is reached: the socket's path from options, environment, settings file and the default place.

The default place is a directory of the user's own, made and checked here. Opens no socket.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dirtybus.config import DirtyConfig
from dirtybus.config.sources import load_config
from dirtybus.errors import ConfigError

__all__ = ["default_socket", "find_socket", "socket_of"]


def find_socket(socket: str | None, name: str | None, *, environ: Mapping[str, str]) -> str:
    """Return where the instance that is meant listens, as `socket_of` does for the instance itself.

    Raises:
        ConfigError: the settings cannot be read, or the directory is not safe.
    """
    if socket is not None:
        return socket
    config = load_config(environ=environ, overrides={} if name is None else {"name": name})
    return socket_of(config, is_named=name is not None, environ=environ)


def socket_of(config: DirtyConfig, *, is_named: bool, environ: Mapping[str, str]) -> str:
    """Return the socket's path of an instance with these settings.

    Args:
        config: its ``socket`` counts, else the default place for its ``name``.
        is_named: the name was given on the command line and no socket was: that beats a socket from elsewhere.
        environ: has the runtime directory.

    Raises:
        ConfigError: the directory of the default place is not safe.
    """
    if config.socket is not None and not is_named:
        return config.socket
    return default_socket(config.name, environ=environ)


def default_socket(name: str, *, environ: Mapping[str, str]) -> str:
    """Return ``<runtime>/dirtybus-<uid>/<name>.sock``; makes the directory, for this user only.

    ``<runtime>`` is ``DIRTYBUS_RUNTIME_DIR``, or ``XDG_RUNTIME_DIR``, or the system's directory for temporary files.

    Raises:
        ConfigError: the directory cannot be made, is somebody else's, or is open to others.
    """
    runtime = environ.get("DIRTYBUS_RUNTIME_DIR") or environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    directory = Path(runtime) / f"dirtybus-{os.getuid()}"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
    except OSError as exc:
        raise ConfigError(
            f"cannot make the directory {str(directory)!r} for the socket: {exc.strerror}; "
            "name a socket elsewhere with --socket, or another place with DIRTYBUS_RUNTIME_DIR"
        ) from exc
    # in /tmp anybody may have made it first, to listen to what we say
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    if not is_ours:
        raise ConfigError(
            f"{str(directory)!r} is not a directory of this user alone (mode {stat.S_IMODE(found.st_mode):o}, owner "
            f"{found.st_uid}), so no socket there can be trusted; remove it, or name a socket with --socket"
        )
    return str(directory / f"{name}.sock")
