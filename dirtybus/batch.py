"""How the calls of an action run together: the terms of ``@action(batch=…)``. Workers load it: keep it lean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

__all__ = ["Batch"]

_MOST = 1024
_LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Run up to ``max_size`` calls of an action at once, whoever made them.

    A batch goes to a free worker when it is full, or when one of its calls has waited for ``max_wait`` seconds. While
    no worker is free, calls gather without any further wait.

    Attributes:
        max_size: how many calls run as one at most, up to 1024.
        max_wait: for how many seconds a call waits for company while a worker is free, up to 60; 0 for not at all.
        cost: what the run time follows: the number of ``calls``, or the ``bytes`` of their encoded arguments.
        max_cost: how many bytes run as one at most, where ``cost`` is ``bytes``; a larger call runs alone. None for
            no limit.
        target: within how many seconds a call that finds a worker free should have its answer, wait included; batches
            grow only as far as the measured times allow. None for batches as large as the other limits.

    Raises:
        ValueError: a limit that cannot be, or can never be met; names it.
    """

    max_size: int = 16
    max_wait: float = 0.01
    cost: Literal["calls", "bytes"] = "calls"
    max_cost: float | None = None
    target: float | None = None

    def __post_init__(self) -> None:
        if type(self.max_size) is not int or not 1 <= self.max_size <= _MOST:
            raise ValueError(f"Batch: max_size must be a whole number from 1 to {_MOST}, not {self.max_size!r}")
        if not _is_number(self.max_wait) or not 0 <= self.max_wait <= _LONGEST_WAIT_S:
            raise ValueError(f"Batch: max_wait must be from 0 to {_LONGEST_WAIT_S:g} seconds, not {self.max_wait!r}")
        if self.cost not in {"calls", "bytes"}:
            raise ValueError(f"Batch: cost must be 'calls' or 'bytes', not {self.cost!r}")
        if self.max_cost is not None and self.cost != "bytes":
            raise ValueError("Batch: max_cost goes with cost='bytes'; the number of calls is limited by max_size")
        if self.max_cost is not None and not (_is_number(self.max_cost) and self.max_cost > 0):
            raise ValueError(f"Batch: max_cost must be a number of bytes above 0, or None, not {self.max_cost!r}")
        if self.target is not None and not (_is_number(self.target) and self.target > self.max_wait):
            raise ValueError(
                f"Batch: target must be more seconds than max_wait, which is a part of it, or None; "
                f"it is {self.target!r}, max_wait is {self.max_wait!r}"
            )


def _is_number(value: object) -> bool:
    return type(value) in {int, float} and math.isfinite(value)  # type: ignore[arg-type]
