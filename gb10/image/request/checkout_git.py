"""Git on an untrusted checkout: it only reads, and runs no program that the checkout names."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gb10.core.proc import CommandFailedError, capture
from gb10.errors import UsageError
from gb10.sources.git.archive import outside

FORCED: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.sshCommand=false",
    "core.askPass=false",
    "credential.helper=",
    "diff.external=",
    "submodule.recurse=false",
)
"""Settings that name a program, overridden on git's command line, which has priority over every file."""
CLOSED: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
"""Git writes no index, fetches no missing object (a remote may be a program) and never prompts."""
PROGRAMS: Final = re.compile(
    r"(filter|include|includeif|protocol|lfs\.extension)\..*"
    r"|core\.(fsmonitor|sshcommand|gitproxy|worktree)"
    r"|remote\..*\.(uploadpack|vcs)",
    re.DOTALL,
)
"""Settings of a checkout by which git runs a program, or reads files elsewhere."""
BOOLEAN: Final = ("true", "false", "yes", "no", "on", "off", "1", "0", "")
"""``core.fsmonitor`` with one of these is git's own daemon, which FORCED turns off."""


def read_git(root: Path, env: Mapping[str, str], *arguments: str) -> str:
    """What git prints about a checkout. Raises UsageError when it prints an error."""
    try:
        return ask_git(root, env, *arguments)
    except CommandFailedError as error:
        raise refused(root, error) from error


def ask_git(root: Path, env: Mapping[str, str], *arguments: str, stdin: str | None = None) -> str:
    """The same, but raises CommandFailedError. The user's git settings apply, as in their shell."""
    forced = [word for setting in FORCED for word in ("-c", setting)]
    closed = {**outside(env), **CLOSED, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    return capture(["git", "-C", str(root), *forced, *arguments], env=closed, stdin=stdin)


def check_settings(root: Path, env: Mapping[str, str]) -> None:
    """Raise UsageError for a checkout with git settings that can run a program."""
    found = [
        key
        for key, value in _own_settings(root, env)
        if PROGRAMS.fullmatch(key) and not _harmless(root, env, key, value)
    ]
    if found:
        raise UsageError(
            f"the git settings of {root} can run programs or read files elsewhere",
            where="\n".join(repr(key)[1:-1] for key in found[:10]),
            hint="remove them: git config --unset NAME\nor give a copy of the folder without .git",
        )


def _own_settings(root: Path, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Names and values of the repository's own settings; git lists them without using them."""
    words = read_git(root, env, "config", "--list", "--no-includes", "--show-scope", "-z").split("\0")
    for scope, setting in zip(words[::2], words[1::2], strict=False):
        if scope in ("local", "worktree"):
            key, _, value = setting.partition("\n")
            yield key, value


def _harmless(root: Path, env: Mapping[str, str], key: str, value: str) -> bool:
    """Whether a setting is safe: git's own daemon, or a submodule's own folder."""
    if key == "core.worktree":
        folder = Path(read_git(root, env, "rev-parse", "--absolute-git-dir").rstrip("\n"))
        return (folder / value).resolve() == root
    return key == "core.fsmonitor" and value.lower() in BOOLEAN


def refused(root: Path, error: CommandFailedError) -> UsageError:
    """The error when git is missing or cannot read the checkout."""
    if error.returncode == 127:
        return UsageError(
            f"git is not installed, and {root} is a git checkout",
            hint="apt-get install git, or give a plain copy without .git",
        )
    return UsageError(
        f"git cannot read the checkout {root}",
        where=error.tail.strip(),
        hint="fix what git reports, or give a plain copy without .git",
    )
