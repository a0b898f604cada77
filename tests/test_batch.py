from __future__ import annotations

import math
from typing import Any

import pytest

from dirtybus import Batch, action


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"max_size": 0}, "max_size must be a whole number from 1 to 1024, not 0"),
        ({"max_size": 2.0}, "max_size must be a whole number from 1 to 1024, not 2.0"),
        ({"max_size": True}, "max_size must be a whole number"),
        ({"max_size": 1025}, "not 1025"),
        ({"max_wait": -1}, "max_wait must be from 0 to 60 seconds, not -1"),
        ({"max_wait": math.nan}, "not nan"),
        ({"max_wait": "5ms"}, "not '5ms'"),
        ({"cost": "tokens"}, "cost must be 'calls' or 'bytes', not 'tokens'"),
        ({"max_cost": 5}, "max_cost goes with cost='bytes'"),
        ({"cost": "bytes", "max_cost": 0}, "max_cost must be a number of bytes above 0, or None, not 0"),
        ({"target": 0.01, "max_wait": 0.01}, "target must be more seconds than max_wait"),
        ({"target": math.inf}, "it is inf"),
    ],
)
def test_terms_that_cannot_be_met_are_refused_by_name(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Batch(**fields)


def test_an_action_takes_no_other_terms() -> None:
    with pytest.raises(ValueError, match=r"batch must be a dirtybus\.Batch or None, not 16"):
        action(batch=16)  # type: ignore[arg-type]
