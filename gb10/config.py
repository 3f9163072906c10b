"""The machine's settings: what changes speed or place, never bytes. Environment over config.toml over defaults."""

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.errors import UsageError

SETTINGS: Final = {
    "cache-dir": "where the store lies (default: $XDG_CACHE_HOME/gb10)",
    "debian-mirror": "root URL of a Debian mirror or snapshot (default: the host's apt sources)",
    "ca-bundle": "PEM file of trusted CAs, for downloads and build stages (default: the environment's, the system's)",
    "jobs": "compile jobs (default: by cores and memory)",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting's value and where it came from."""

    name: str
    value: str | None
    origin: str


def variable(name: str) -> str:
    """``debian-mirror`` -> ``GB10_DEBIAN_MIRROR``."""
    return f"GB10_{name.upper().replace('-', '_')}"


def config_file(env: Mapping[str, str]) -> Path:
    """$XDG_CONFIG_HOME/gb10/config.toml, else ~/.config/gb10/config.toml."""
    base = env.get("XDG_CONFIG_HOME") or os.path.join(env.get("HOME") or "/nonexistent", ".config")  # noqa: PTH118
    return Path(base) / "gb10/config.toml"


def read_settings(env: Mapping[str, str]) -> tuple[Setting, ...]:
    """Every setting; raises UsageError with file and closest name for an unknown one."""
    path = config_file(env)
    written = _read(path) if path.is_file() else {}
    return tuple(_setting(name, env, written, path) for name in SETTINGS)


def with_settings(env: Mapping[str, str]) -> dict[str, str]:
    """The environment with the file's settings as GB10_* variables, where the environment has none."""
    found = {variable(setting.name): setting.value for setting in read_settings(env)}
    return {**env, **{name: value for name, value in found.items() if value}}


def _setting(name: str, env: Mapping[str, str], written: Mapping[str, str], path: Path) -> Setting:
    if env.get(variable(name)):
        return Setting(name, env[variable(name)], f"${variable(name)}")
    if name in written:
        return Setting(name, written[name], str(path))
    return Setting(name, None, "default")


def _read(path: Path) -> dict[str, str]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"cannot read {path}", where=str(error)) from error
    for name in values:
        if name not in SETTINGS:
            close = difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.0)[0]
            raise UsageError(f"unknown setting {name!r}", where=str(path),
                             hint=f"did you mean {close!r}? valid: {', '.join(SETTINGS)}")  # fmt: skip
    return {name: str(value) for name, value in values.items()}
