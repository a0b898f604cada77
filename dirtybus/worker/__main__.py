"""``python -m dirtybus.worker``: from an inherited descriptor to a serving worker. Started by the arbiter only."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.heads import Boot, Booting, Inspect, Inspected
from dirtybus.protocol.messages import Message
from dirtybus.transport.blocking import BlockingLink
from dirtybus.transport.claims import Claims
from dirtybus.transport.posix import (
    die_with_parent,
    heed_owner_signals,
    inherited_socket,
    leave_stop_signals_to_parent,
)
from dirtybus.transport.pulse import give_pulse

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Run the worker whose link, claims and pulse are the descriptors ``argv[:3]``.

    The rest of ``argv`` are the payload limit and the owner's pid. A pulse of -1 means that nobody will feel it.

    Returns:
        the exit code: 0 after an orderly end, 1 when it could not boot or its owner is gone. Never 3 or 4, which
        old gunicorn masters take for a command to stop.
    """
    try:
        fd, claims_fd, pulse_fd, max_payload_bytes, owner_pid = (int(arg) for arg in argv[:5])
    except ValueError:
        sys.stderr.write("dirtybus.worker is started by an arbiter; to serve an app, type: dirtybus run module:Class\n")
        return 2
    heed_owner_signals(_reopen_log_files)
    leave_stop_signals_to_parent()
    dies_with_owner = die_with_parent(owner_pid)
    link = BlockingLink(inherited_socket(fd), Connection(Side.CALLEE, max_payload_bytes))
    claims = Claims.attach(claims_fd)
    if pulse_fd >= 0:
        give_pulse(pulse_fd)
    order = link.receive()
    if order is None:
        return 1
    match order.head:
        case Inspect() as head:
            sys.path[:] = head.path
            return _inspect(link, head)
        case Boot() as head:
            sys.path[:] = head.path
            return _serve(link, claims, head, dies_with_owner=dies_with_owner)
    return 1


def _serve(link: BlockingLink, claims: Claims, head: Boot, *, dies_with_owner: bool) -> int:
    from dirtybus.worker.imports import after_import, limit_onnxruntime
    from dirtybus.worker.loop import Worker

    if head.compute_threads is not None:
        after_import("onnxruntime", limit_onnxruntime(head.compute_threads))
    return Worker(link, claims, head, dies_with_owner=dies_with_owner).run()


def _inspect(link: BlockingLink, head: Inspect) -> int:
    import msgspec

    from dirtybus.app import app_info
    from dirtybus.worker.failures import send_boot_failure
    from dirtybus.worker.host import BootStep, boot_step, inspect_class

    def look_at(path: str) -> Any:
        link.send(Message(Booting(step="import", app=path)))
        cls = inspect_class(path)
        return boot_step("inspect", path, lambda: msgspec.to_builtins(app_info(path, cls), enc_hook=repr))

    try:
        infos = [look_at(path) for path in head.apps]
        boot_step("inspect", None, lambda: link.send(Message(Inspected(apps=infos))))
    except BootStep as exc:
        send_boot_failure(link.send, exc)
        return 1
    return 0


def _reopen_log_files() -> None:
    """See to it in a thread of its own: the main thread, which the signal interrupted, may be writing a record."""

    def reopen() -> None:
        # not out here: a second signal in the middle of the import would find half a module
        from dirtybus.log_files import reopen_log_files

        for problem in reopen_log_files():
            sys.stderr.write(f"{problem}\n")

    threading.Thread(target=reopen, name="dirtybus-log-files", daemon=True).start()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # threads that an app left behind must not keep the process: its last word is said
    os._exit(code)
