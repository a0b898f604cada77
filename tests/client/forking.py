"""A program that forks with a connected client, as prefork servers do; both sides go on calling."""

from __future__ import annotations

import os
import sys

from dirtybus.client import DirtyClient

APP = "tests.apps.basic:Basic"
client = DirtyClient(sys.argv[1])
assert client.execute(APP, "echo", "before") == "before"
stream = client.stream(APP, "numbers", 100)
assert next(stream) == 0
pid = os.fork()
if pid == 0:
    ok = [client.execute(APP, "echo", n) == n for n in range(20)]
    os._exit(0 if all(ok) else 1)
_, status = os.waitpid(pid, 0)
assert list(stream) == list(range(1, 100)), "the child disturbed a stream of its parent"
assert client.execute(APP, "echo", "after") == "after"
client.close()
sys.exit(os.waitstatus_to_exitcode(status))
