"""The settings of when a worker is replaced although nothing is wrong with it. Knows no worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from dirtybus.config.kinds import Size, Span, Whole
from dirtybus.config.vocabulary import settle_fields
from dirtybus.errors import ConfigError

__all__ = ["RecycleConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecycleConfig:
    """When a worker is replaced. For a limit, None and 0 mean that there is none.

    Memory is what the worker has for itself: resident pages without those that it shares with others.

    Attributes:
        max_requests: after how many calls a worker is replaced.
        max_requests_jitter: up to how many more calls, drawn for each worker, so that they do not all come at once.
        max_age_s: how long after it was ready; up to a tenth later, drawn for each worker.
        soft_memory_bytes: with how much memory; the worker finishes its calls.
        hard_memory_bytes: with how much memory it is killed at once, before the system does worse.

    Raises:
        ConfigError: a field does not fit, or the hard limit is below the soft one.
    """

    max_requests: Annotated[int | None, Whole(limit=True)] = None
    max_requests_jitter: Annotated[int, Whole(least=0)] = 0
    max_age_s: Annotated[float | None, Span(limit=True)] = None
    soft_memory_bytes: Annotated[int | None, Size(limit=True)] = None
    hard_memory_bytes: Annotated[int | None, Size(limit=True)] = None

    def __post_init__(self) -> None:
        settle_fields(self)
        soft, hard = self.soft_memory_bytes, self.hard_memory_bytes
        if soft is not None and hard is not None and hard < soft:
            raise ConfigError(
                f"hard_memory_bytes is {hard} but soft_memory_bytes is {soft}; a worker would be killed before it "
                f"could be replaced: raise the hard limit to more than {soft}"
            )

    @property
    def looks_at_memory(self) -> bool:
        """Whether anybody has to know how much memory workers take."""
        return self.soft_memory_bytes is not None or self.hard_memory_bytes is not None
