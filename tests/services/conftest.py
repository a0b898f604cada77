from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where a scenario's stderr goes."""
    return tmp_path / "stderr.txt"
