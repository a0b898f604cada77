from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dirtybus.cli.whereabouts import default_socket, find_socket, socket_of
from dirtybus.config import DirtyConfig
from dirtybus.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)


def test_the_default_is_in_a_private_directory_of_the_user(tmp_path: Path) -> None:
    path = Path(default_socket("shop", environ={"DIRTYBUS_RUNTIME_DIR": str(tmp_path / "new")}))
    assert path == tmp_path / "new" / f"dirtybus-{os.getuid()}" / "shop.sock"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_our_own_variable_beats_the_desktop_s(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert default_socket("n", environ={"XDG_RUNTIME_DIR": str(theirs)}).startswith(f"{theirs}/")
    both = {"XDG_RUNTIME_DIR": str(theirs), "DIRTYBUS_RUNTIME_DIR": str(ours)}
    assert default_socket("n", environ=both).startswith(f"{ours}/")


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"dirtybus-{os.getuid()}").mkdir()
    (tmp_path / f"dirtybus-{os.getuid()}").chmod(0o755)
    with pytest.raises(ConfigError, match=r"mode 755.*remove it, or name a socket"):
        default_socket("n", environ={"DIRTYBUS_RUNTIME_DIR": str(tmp_path)})


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"dirtybus-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="not a directory of this user alone"):
        default_socket("n", environ={"DIRTYBUS_RUNTIME_DIR": str(tmp_path)})


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot make the directory .*--socket"):
        default_socket("n", environ={"DIRTYBUS_RUNTIME_DIR": str(tmp_path / "file")})


def test_option_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    environ = {"DIRTYBUS_RUNTIME_DIR": str(tmp_path)}
    default = default_socket("dirtybus", environ=environ)
    assert find_socket(None, None, environ=environ) == default
    Path("dirtybus.toml").write_text('socket = "/file.sock"\n')
    assert find_socket(None, None, environ=environ) == "/file.sock"
    environ["DIRTYBUS_SOCKET"] = "/environ.sock"
    assert find_socket(None, None, environ=environ) == "/environ.sock"
    assert find_socket("/option.sock", "name", environ=environ) == "/option.sock"


def test_a_name_that_was_typed_beats_a_socket_from_elsewhere(tmp_path: Path) -> None:
    environ = {"DIRTYBUS_RUNTIME_DIR": str(tmp_path), "DIRTYBUS_SOCKET": "/environ.sock"}
    assert find_socket(None, "shop", environ=environ) == default_socket("shop", environ=environ)


def test_an_owner_and_those_who_look_for_it_agree(tmp_path: Path) -> None:
    environ = {"DIRTYBUS_RUNTIME_DIR": str(tmp_path), "DIRTYBUS_NAME": "shop"}
    config = DirtyConfig.of(name="shop")
    assert socket_of(config, is_named=False, environ=environ) == find_socket(None, None, environ=environ)


def test_a_socket_that_was_typed_needs_no_settings_that_can_be_read() -> None:
    Path("dirtybus.toml").write_text("nonsense")
    assert find_socket("/option.sock", None, environ={}) == "/option.sock"
    with pytest.raises(ConfigError, match="not a TOML file"):
        find_socket(None, None, environ={})
