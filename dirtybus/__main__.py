"""``python -m dirtybus``: the command line, for where its script is not in the path. Decides nothing."""

from __future__ import annotations

from dirtybus.cli import main

if __name__ == "__main__":
    main()
