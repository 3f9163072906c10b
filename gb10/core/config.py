"""The machine's settings: what changes speed or place, never bytes. Environment over config.toml over defaults."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from gb10.errors import UsageError

SETTINGS: Final = {
    "cache-dir": "absolute path of the store (default: $XDG_CACHE_HOME/gb10)",
    "debian-mirror": "root URL of a Debian mirror or snapshot (default: the host's apt sources)",
    "ca-bundle": "PEM file of trusted CAs, for downloads (default: the environment's, the system's)",
    "jobs": "most compile jobs at once (default: the cores, fewer when memory is short)",
    "compile-cache": "shared compile cache: redis://[user:password@]host[:port] or http://…",
    "wheel-cache": "Hugging Face Hub repository (OWNER/NAME): a wheel found there is not compiled",
    "wheel-cache-signers": "allowed_signers file (man ssh-keygen): the keys trusted to sign wheels there",
    "wheel-cache-key": "ssh key that signs what `cache push` sends",
}
PATHS: Final = ("cache-dir", "ca-bundle", "wheel-cache-signers", "wheel-cache-key")
JOBS: Final = "write a number, for example 8; or unset it: gb10 then counts cores and memory"
TOML: Final = 'write a line per setting, text in quotes: jobs = 8, debian-mirror = "https://mirror.example/debian"'
OTHERS: Final = ("GB10_TEST_", "GB10_GIT_")
"""Variables of the tests, and of git under us."""
LAST_PORT: Final = 65_535
MIRROR: Final = re.compile(
    r"https?://(?!MIRROR\b|ftp\.XX\.)([^\s/@]*@)?([\w.-]+|\[[\da-fA-F:]+\])(:\d+)?(/[^\s?#]*)?", re.ASCII
)
SERVER: Final = re.compile(r"(redis|http)://([\w.~%+-]*(?::[\w.~%+-]*)?@)?[\w.-]+(:\d+)?(/[\w.~%/-]*)?", re.ASCII)


class Setting(NamedTuple):  # no dataclass: what they load takes as long as the rest of a start
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
    """Every setting; raises UsageError with file and closest name for an unknown one, with its origin for a bad one."""
    path = config_file(env)
    written = _read(path)
    for name in written:
        if name not in SETTINGS:
            import difflib  # noqa: PLC0415 - for a wrong name

            close = difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.6)
            guess = f"did you mean {close[0]!r}? " if close else ""
            raise UsageError(f"unknown setting {name!r}", where=str(path), hint=f"{guess}valid: {', '.join(SETTINGS)}")
    found = tuple(_setting(name, env, written, path) for name in SETTINGS)
    _check_jobs(next(setting for setting in found if setting.name == "jobs"))
    _check_server(next(setting for setting in found if setting.name == "compile-cache"))
    _check_mirror(next(setting for setting in found if setting.name == "debian-mirror"))
    return found


def unknown_variables(env: Mapping[str, str]) -> list[str]:
    """A line for each GB10_* variable that is no setting. Pure."""
    valid = [variable(name) for name in SETTINGS]
    odd = [name for name in env if name.startswith("GB10_") and not name.startswith(OTHERS) and name not in valid]
    if not odd:
        return []
    import difflib  # noqa: PLC0415 - for a wrong name

    close = {name: difflib.get_close_matches(name, valid, n=1, cutoff=0.0)[0] for name in sorted(odd)}
    return [f"warning: {name} is no setting and is ignored; the closest is {valid}" for name, valid in close.items()]


def with_settings(env: Mapping[str, str]) -> dict[str, str]:
    """The environment with the file's settings as GB10_* variables, where the environment has none."""
    found = {variable(setting.name): setting.value for setting in read_settings(env)}
    return {**env, **{name: value for name, value in found.items() if value}}


def with_cache_dir(env: Mapping[str, str]) -> dict[str, str]:
    """The environment with the file's ``cache-dir`` alone: what a start must know before the tool itself can run."""
    setting = _setting("cache-dir", env, _read(config_file(env)), config_file(env))
    return {**env, variable(setting.name): setting.value} if setting.value else dict(env)


def _setting(name: str, env: Mapping[str, str], written: Mapping[str, str], path: Path) -> Setting:
    if env.get(variable(name)):
        return Setting(name, env[variable(name)], f"${variable(name)}")
    if name not in written:
        return Setting(name, None, "default")
    if name in PATHS and not written[name].startswith("/"):
        raise UsageError(f"{name} must be an absolute path, not {written[name]!r}", where=str(path))
    return Setting(name, written[name], str(path))


def _check_jobs(jobs: Setting) -> None:
    value = jobs.value
    if value is not None and not (value.isascii() and value.isdigit() and int(value) >= 1):
        raise UsageError(
            f"jobs must be a whole number of at least 1, not {value!r}", where=f"from {jobs.origin}", hint=JOBS
        )


def _check_server(cache: Setting) -> None:
    """Refuse what the compile stages' ccache cannot ask; the value may hold a password, and is not repeated."""
    found = SERVER.fullmatch(cache.value) if cache.value else None
    if cache.value and (found is None or int((found[3] or ":0")[1:]) > LAST_PORT):
        raise UsageError(
            "compile-cache must be redis://[user:password@]host[:port][/db] or http://[user:password@]host[:port]/path",
            where=f"from {cache.origin}",
            hint="of a password, write all but letters, digits and .~+-_ as %XX\n"
            "ccache knows no TLS, and a build stage sees no folder (file://) and no socket of this machine",
        )


def _check_mirror(mirror: Setting) -> None:
    """Refuse what is no address on the web, and the placeholder of README; the value may hold a password."""
    if mirror.value and MIRROR.fullmatch(mirror.value) is None:
        raise UsageError(
            "debian-mirror must be the http:// or https:// address of a Debian mirror",
            where=f"from {mirror.origin}",
            hint="write http://HOST/debian with the host of a mirror near you: https://www.debian.org/mirror/list",
        )


def without_login(url: str) -> str:
    """A server's URL as it may be shown."""
    return re.sub("//.*@", "//***@", url)


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            import tomllib  # noqa: PLC0415 - for those who have settings in a file

            values = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}", where=str(error), hint=TOML) from error
    return {name: str(value) for name, value in values.items()}


NO_MOUNT: Final = (":", "\n", "\r")


def store_root(env: Mapping[str, str]) -> Path:
    """Where the store lies, without touching it. Raises UsageError."""
    root = _store_root(env)
    wrong = next((sign for sign in NO_MOUNT if sign in str(root)), None)
    if wrong:
        raise UsageError(
            f"the cache directory's path has {wrong!r} in it: {str(root)!r}",
            hint="mounts and PATH cannot hold that; set GB10_CACHE_DIR to another directory",
        )
    return root


def _store_root(env: Mapping[str, str]) -> Path:
    if env.get("GB10_CACHE_DIR"):
        if not Path(env["GB10_CACHE_DIR"]).is_absolute():
            raise UsageError(
                "GB10_CACHE_DIR is not an absolute path",
                where=env["GB10_CACHE_DIR"],
                hint="the store must not depend on where a command is run",
            )
        return Path(env["GB10_CACHE_DIR"])
    if env.get("XDG_CACHE_HOME"):
        return Path(env["XDG_CACHE_HOME"]) / "gb10"
    try:
        home = Path(env["HOME"]) if "HOME" in env else Path.home()
    except RuntimeError as error:
        raise UsageError("no home directory", hint="set GB10_CACHE_DIR to a directory on a disk with room") from error
    if not home.is_absolute():  # an empty HOME: /.cache would be the store
        raise UsageError(
            f"HOME is {str(env['HOME'])!r}, not an absolute path",
            hint="set HOME, or set GB10_CACHE_DIR to a directory on a disk with room",
        )
    return home / ".cache" / "gb10"
