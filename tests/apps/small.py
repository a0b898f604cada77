"""An app that needs nothing: what its worker has loaded is ours."""

from __future__ import annotations

import sys

from dirtybus import DirtyApp


class Small(DirtyApp):
    def modules(self) -> list[str]:
        return list(sys.modules)
