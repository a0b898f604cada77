"""``python -m dirtybus.worker``: from an inherited descriptor to a serving worker. Started by the arbiter only."""

from __future__ import annotations

import os
import signal
import sys

from dirtybus.errors import DirtyAppError, DirtyError
from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.messages import Boot, BootFailed, Inspect, Inspected, Message
from dirtybus.transport.blocking import BlockingLink
from dirtybus.transport.claims import Claims
from dirtybus.transport.posix import die_with_parent, inherited_socket

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Run the worker whose link and claims are the descriptors ``argv[:2]``.

    The rest of ``argv`` are the payload limit and the owner's pid.

    Returns:
        the exit code: 0 after an orderly end, 1 when it could not boot or its owner is gone. Never 3 or 4, which
        old gunicorn masters take for a command to stop.
    """
    if len(argv) < 4:
        sys.stderr.write("dirtybus.worker is started by an arbiter; to serve an app, type: dirtybus run module:Class\n")
        return 2
    fd, claims_fd, max_payload_bytes, owner_pid = (int(arg) for arg in argv[:4])
    # a terminal's Ctrl-C and a service manager's TERM go to the whole group; only the owner decides when we stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    die_with_parent(owner_pid)
    link = BlockingLink(inherited_socket(fd), Connection(Side.CALLEE, max_payload_bytes))
    claims = Claims.attach(claims_fd)
    order = link.receive()
    if order is None:
        return 1
    match order.head:
        case Inspect() as head:
            sys.path[:] = head.path
            return _inspect(link, head)
        case Boot() as head:
            sys.path[:] = head.path
            return _serve(link, claims, head)
    return 1


def _serve(link: BlockingLink, claims: Claims, head: Boot) -> int:
    from dirtybus.worker.imports import after_import, limit_onnxruntime
    from dirtybus.worker.loop import Worker

    if head.compute_threads is not None:
        after_import("onnxruntime", limit_onnxruntime(head.compute_threads))
    return Worker(link, claims, head).run()


def _inspect(link: BlockingLink, head: Inspect) -> int:
    import msgspec

    from dirtybus.app import app_info
    from dirtybus.worker.host import BootStep, inspect_class

    try:
        infos = [msgspec.to_builtins(app_info(path, inspect_class(path))) for path in head.apps]
    except BootStep as exc:
        link.send(
            Message(BootFailed(step=exc.step, app=exc.app, duration_s=exc.duration_s, error=exc.error().to_dict()))
        )
        return 1
    try:
        link.send(Message(Inspected(apps=infos)))
    except (DirtyError, TypeError) as exc:
        error = DirtyAppError(f"class attributes that cannot be sent: {exc}").to_dict()
        link.send(Message(BootFailed(step="inspect", app=None, duration_s=0.0, error=error)))
        return 1
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # threads that an app left behind must not keep the process: its last word is said
    os._exit(code)
