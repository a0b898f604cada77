"""Where settings come from: arguments over environment over file over defaults. Decides nothing about their values."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from dirtybus.config.model import SETTINGS, DirtyConfig
from dirtybus.config.vocabulary import Found
from dirtybus.errors import ConfigError

__all__ = ["SettingSource", "explain_config", "load_config"]

_PREFIX: Final = "DIRTYBUS_"
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_NOT_SETTINGS: Final = re.compile(
    r"CONFIG|RUNTIME_DIR|LOG_LEVEL|INTERNAL_.*"
    # Kubernetes gives these to every pod beside a service called "dirtybus"
    r"|SERVICE_HOST|SERVICE_PORT.*|PORT|PORT_\d+_.*"
)


@dataclass(frozen=True, slots=True)
class SettingSource:
    """One setting, its value, and where that comes from."""

    name: str
    value: object
    source: str


def load_config(
    file: Path | None = None, *, environ: Mapping[str, str], overrides: Mapping[str, object] = _NOTHING
) -> DirtyConfig:
    """Make settings from all sources: overrides, then environment, then file, then defaults; the first that has it.

    Settings in tables (``gate``, ``hooks``, ``env``) are taken one by one.

    Args:
        file: a TOML file; in a ``pyproject.toml`` the table ``[tool.dirtybus]`` counts. None: the file that
            ``DIRTYBUS_CONFIG`` names, or ``dirtybus.toml``, or a ``pyproject.toml`` with that table, the two latter
            in the current directory; or none at all.
        environ: ``DIRTYBUS_TIMEOUT=5m`` sets ``timeout_s``, ``DIRTYBUS_GATE_MODE=drop`` the gate's ``mode``. An
            empty variable is as good as none.
        overrides: settings that beat all others, as in `DirtyConfig.from_mapping`. Leave out what was not given:
            None means "no limit" here too.

    Raises:
        ConfigError: a file that cannot be read, an unknown name, or a value that does not fit.
    """
    return SETTINGS.build(_find_all(file, environ, overrides))


def explain_config(
    file: Path | None = None, *, environ: Mapping[str, str], overrides: Mapping[str, object] = _NOTHING
) -> tuple[SettingSource, ...]:
    """Return each setting that `load_config` makes of the same arguments, with its source.

    Raises:
        ConfigError: as `load_config`.
    """
    found = _find_all(file, environ, overrides)
    rows = SETTINGS.rows(SETTINGS.build(found))
    return tuple(SettingSource(name, value, found[name].place if name in found else "default") for name, value in rows)


def _find_all(file: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]) -> dict[str, Found]:
    return {
        **_find_in_file(file or _named_file(environ)),
        **_find_in_environ(environ),
        **SETTINGS.read(overrides, source="arguments"),
    }


def _named_file(environ: Mapping[str, str]) -> Path | None:
    named = environ.get(f"{_PREFIX}CONFIG")
    return Path(named) if named else None


def _find_in_environ(environ: Mapping[str, str]) -> dict[str, Found]:
    ours = {name.removeprefix(_PREFIX): text for name, text in environ.items() if name.startswith(_PREFIX) and text}
    settings = {name.lower(): text for name, text in ours.items() if not _NOT_SETTINGS.fullmatch(name)}
    return SETTINGS.read(settings, source="environment", spelled=lambda key: _PREFIX + key.upper())


def _find_in_file(file: Path | None) -> dict[str, Found]:
    if file is not None:
        table, place = _table_of(file), _place_of(file)
        if table is None:
            raise ConfigError(f"{file} has no table [tool.dirtybus]; add it, or name another file")
        return SETTINGS.read(table, source=place)
    for candidate in (Path("dirtybus.toml"), Path("pyproject.toml")):
        table = _table_of(candidate) if candidate.is_file() else None
        if table is not None:
            return SETTINGS.read(table, source=_place_of(candidate))
    return {}


def _place_of(file: Path) -> str:
    return f"{file} [tool.dirtybus]" if file.name == "pyproject.toml" else str(file)


def _table_of(file: Path) -> Any:
    """Return what the file says of us, which may be no table at all; None if it is a pyproject.toml silent on us."""
    content = _read_toml(file)
    if file.name != "pyproject.toml":
        for name in ("dirtybus", "tool"):
            if name in content:
                raise ConfigError(
                    f"{file} has a table [{name}]; leave that heading out: settings stand at the top there"
                )
        return content
    tools = content.get("tool", {})
    return tools.get("dirtybus") if isinstance(tools, dict) else None


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as exc:
        raise ConfigError(f"cannot read the settings in {file}: {exc.strerror}") from exc
    except ValueError as exc:  # not TOML, or not UTF-8
        raise ConfigError(f"{file} is not a TOML file: {exc}") from exc
