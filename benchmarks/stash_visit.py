"""One stash, measured once, in this fresh process: ``python -m benchmarks.stash_visit NAME PLACE PLAN``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.stash_load import StashPlan
from benchmarks.subjects.stashes import STASHES
from benchmarks.visit import FOUND

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Measure and leave what was found in the place."""
    name, place, plan = argv
    measure, _ = STASHES[name]
    found = measure(Path(place), StashPlan(**json.loads(plan)))
    (Path(place) / FOUND).write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.getcwd())  # so that its children find these modules too
    sys.exit(main(sys.argv[1:]))
