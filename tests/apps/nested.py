"""An app whose actions call the pool they run in."""

from __future__ import annotations

from typing import Any

from dirtybus import DirtyApp, get_dirty_client


class Nested(DirtyApp):
    def outer(self, value: int) -> Any:
        return get_dirty_client().execute("tests.apps.nested:Nested", "inner", value)

    def inner(self, value: int) -> str:
        return f"inner {value}"
