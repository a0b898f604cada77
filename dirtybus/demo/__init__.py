"""The demo: real models over real files. Workers import `dirtybus.demo.app` from here, so nothing is loaded by this."""

from __future__ import annotations
