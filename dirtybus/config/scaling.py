"""The settings of autoscaling: where the number of workers is aimed at before calls have to wait. Knows no worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from dirtybus.config.kinds import Choice, Share, Span
from dirtybus.config.vocabulary import settle_fields

__all__ = ["ScalingConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingConfig:
    """How an elastic pool is scaled ahead of its calls.

    Attributes:
        policy: ``none``: calls that wait bring workers, and nobody looks ahead; ``target``: so many workers are kept
            that they are busy for ``target_busy`` of their time.
        target_busy: which share of their time workers are meant to be busy.
        interval_s: how often the load is looked at, while there is any.
        window_s: over which span it is averaged before workers are let go; going up looks at a tenth of it.
        up_cooldown_s: how long after going up the next step up may come.
        down_cooldown_s: how long after any step the next step down may come.
        max_memory: with which share of the machine's memory in use nobody is added by this.

    Raises:
        ConfigError: a field does not fit.
    """

    policy: Annotated[Literal["none", "target"], Choice(("none", "target"))] = "none"
    target_busy: Annotated[float, Share()] = 0.7
    interval_s: Annotated[float, Span(least=0.01)] = 1.0
    window_s: Annotated[float, Span(least=0.1)] = 60.0
    up_cooldown_s: Annotated[float, Span()] = 2.0
    down_cooldown_s: Annotated[float, Span()] = 30.0
    max_memory: Annotated[float, Share()] = 0.9

    def __post_init__(self) -> None:
        settle_fields(self)
