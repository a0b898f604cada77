"""The door to the settings. Reads no file and no environment: `dirtybus.config.sources` does, when asked."""

from __future__ import annotations

from dirtybus.config.app_spec import AppSpec, check_apps
from dirtybus.config.hooks import HOOKS
from dirtybus.config.model import DirtyConfig, GateConfig
from dirtybus.config.recycling import RecycleConfig
from dirtybus.config.scaling import ScalingConfig
from dirtybus.config.stash import StashConfig, TableConfig
from dirtybus.config.units import read_size, read_span

__all__ = [
    "HOOKS",
    "AppSpec",
    "DirtyConfig",
    "GateConfig",
    "RecycleConfig",
    "ScalingConfig",
    "StashConfig",
    "TableConfig",
    "check_apps",
    "read_size",
    "read_span",
]
