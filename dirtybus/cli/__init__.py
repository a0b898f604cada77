"""The command line. Owns what people type and what they read back; must never learn how the work is done."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from dirtybus.errors import MissingExtra

__all__ = ["main"]


def main() -> None:
    """Run the command line on ``sys.argv`` and end the process with its exit code."""
    for package in ("click", "rich"):
        if find_spec(package) is None:
            sys.stderr.write(f"dirtybus: {MissingExtra(package, 'cli', 'the command line')}\n")
            sys.exit(2)
    try:
        from dirtybus.cli.verbs import dirtybus

        dirtybus(prog_name="dirtybus")
    except KeyboardInterrupt:  # while modules were still being loaded
        sys.exit(130)
