"""pip's configuration, read as pip reads it: from general to special."""

from pathlib import Path

import pytest

from gb10.errors import UsageError
from gb10.sources.index.pip_settings import pip_options, read_settings


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A machine with a site-wide and a personal configuration."""
    for folder, url in (("xdg/pip", "https://site.invalid/simple"), ("home/.config/pip", "https://own.invalid/simple")):
        (tmp_path / folder).mkdir(parents=True)
        text = f"[global]\nindex-url = {url}\nextra_index_url =\n    file:///a\n    file:///b\n"
        (tmp_path / folder / "pip.conf").write_text(text, encoding="utf-8")
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": str(tmp_path / "xdg")}


def test_own_wins_over_site(env: dict[str, str], tmp_path: Path) -> None:
    settings = read_settings(env, tmp_path)
    assert settings.url == "https://own.invalid/simple"
    assert settings.extra_urls == ("file:///a", "file:///b")


def test_variables_win(env: dict[str, str], tmp_path: Path) -> None:
    settings = read_settings(env | {"PIP_INDEX_URL": "https://var.invalid/simple", "PIP_FIND_LINKS": "/x /y"}, tmp_path)
    assert settings.url == "https://var.invalid/simple"
    assert settings.find_links == ("/x", "/y")


def test_install_section_wins_over_global(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "xdg/pip/pip.conf").write_text(
        "[install]\nindex-url = https://install.invalid/simple\n", encoding="utf-8"
    )
    assert read_settings(env, tmp_path).url == "https://install.invalid/simple"


def test_named_file_wins_over_files(env: dict[str, str], tmp_path: Path) -> None:
    named = tmp_path / "named.conf"
    named.write_text("[global]\nindex-url = https://named.invalid/simple\n", encoding="utf-8")
    assert read_settings(env | {"PIP_CONFIG_FILE": str(named)}, tmp_path).url == "https://named.invalid/simple"


def test_null_device_means_no_files(env: dict[str, str], tmp_path: Path) -> None:
    assert pip_options(env | {"PIP_CONFIG_FILE": "/dev/null"}, tmp_path) == {"config-file": "/dev/null"}


def test_no_index(env: dict[str, str], tmp_path: Path) -> None:
    assert read_settings(env | {"PIP_NO_INDEX": "1"}, tmp_path).url is None


def test_uv_variables_when_pip_says_nothing(tmp_path: Path) -> None:
    env = {"PIP_CONFIG_FILE": "/dev/null", "UV_DEFAULT_INDEX": "https://uv.invalid/simple"}
    assert read_settings(env, tmp_path).url == "https://uv.invalid/simple"


def test_broken_file(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "xdg/pip/pip.conf").write_text("index-url = no section\n", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot read pip's configuration"):
        read_settings(env, tmp_path)
