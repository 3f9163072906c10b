"""Creates an environment: an empty venv, then the vendored pip installs exactly the locked hashes."""

import shutil
import sys
import uuid
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from bootstrap.environment import CHECKOUT, Environment
from gb10.core.proc import CommandFailedError, capture, last_lines
from gb10.core.store import Store, file_sha256
from gb10.errors import FetchError, Gb10Error, UsageError

PIP = CHECKOUT / "bootstrap" / "pip-26.3-py3-none-any.whl"
PIP_SHA256 = "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"
PIP_OPTIONS = (
    "--quiet",
    "--no-input",
    "--disable-pip-version-check",
    "--no-user",
    "--no-warn-script-location",
    "--require-hashes",
    "--only-binary",
    ":all:",
    "--no-deps",
)
PIP_TAIL = 8


@dataclass(frozen=True, slots=True)
class Cause:
    """Text in pip's output that identifies a cause, and the error for the user."""

    words: tuple[str, ...]
    error: type[Gb10Error]
    message: str
    hint: str


# The first match wins: pip also ends in "no matching distribution" when it cannot reach the index.
CAUSES = (
    Cause(
        ("DO NOT MATCH THE HASHES",),
        FetchError,
        "a package does not match its locked hash",
        "an index, a mirror or a proxy changed it; set another index for pip and run again",
    ),
    Cause(
        ("CERTIFICATE_VERIFY_FAILED", "SSLError", "SSLCertVerificationError"),
        FetchError,
        "the package index's certificate is not trusted",
        "set PIP_CERT or SSL_CERT_FILE to your CA bundle, or in pip's configuration",
    ),
    Cause(
        ("No space left on device", "Disk quota exceeded"),
        UsageError,
        "no disk space for the tool's environment",
        "set GB10_CACHE_DIR to a directory with free space",
    ),
    Cause(
        ("Retrying (", "Connection", "ProxyError", "timed out"),
        FetchError,
        "cannot reach the package index",
        "check the network, the proxy and pip's configuration (gb10 uses it), then run again",
    ),
    Cause(
        ("No matching distribution",),
        FetchError,
        "the package index has no locked wheel for this machine",
        "use an index that mirrors the public one in full, and CPython 3.11 to 3.14 on Linux, x86_64 or aarch64",
    ),
)
OTHER = Cause((), FetchError, "cannot install the tool's packages", "fix what pip reports, then run the command again")


def ensure(wanted: Environment, store: Store, env: Mapping[str, str]) -> None:
    """Create the environment if it is missing; other processes wait. Raises FetchError, UsageError (full disk)."""
    try:
        with store.locked(f"environment-{wanted.key}", waiting=_waiting):
            if not wanted.is_complete():
                say(f"creating the environment of {wanted.lock.name}, once (about 20 s)")
                make(wanted, env)
    except OSError as error:
        raise UsageError(
            f"cannot read or write {error.filename or wanted.root}: {error.strerror}",
            hint="set GB10_CACHE_DIR to a writable directory with free space",
        ) from error


@contextmanager
def _waiting(holder: str) -> Iterator[None]:
    say(f"another process is creating the environment: waiting for {holder}")
    yield


def make(wanted: Environment, env: Mapping[str, str]) -> None:
    """Create it in a new directory, then link ``wanted.root`` to it atomically.

    A killed run may leave its pip running; that pip writes to a directory that is not in use. A rename would break the
    paths in the scripts, so this uses a link.
    """
    for left in wanted.root.parent.glob(f"{wanted.key}.*"):
        shutil.rmtree(left, ignore_errors=True)
    work = wanted._replace(root=wanted.root.with_suffix(f".{uuid.uuid4().hex[:8]}"))
    try:
        venv.create(work.root, symlinks=True)
        install(work, env)
        work.stamp.write_text(file_sha256(work.lock), encoding="ascii")
        link = work.root / "link"
        link.symlink_to(work.root.name)
        link.replace(wanted.root)
    except BaseException:  # also for a full disk: do not keep a partial environment
        shutil.rmtree(work.root, ignore_errors=True)
        raise


def install(wanted: Environment, env: Mapping[str, str]) -> None:
    """Run the vendored pip in the environment; raises FetchError or UsageError with the cause that pip reports."""
    if file_sha256(PIP) != PIP_SHA256:
        raise FetchError(f"{PIP.name} is not the released file", where=str(PIP), hint="check out the tree again")
    # These variables would make pip install outside the environment.
    clean = {name: value for name, value in env.items() if name not in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")}
    pip = (str(wanted.python), "-I", str(PIP / "pip"), "install", *PIP_OPTIONS, "--requirement", str(wanted.lock))
    try:
        capture(pip, env=clean)
    except CommandFailedError as failure:
        raise explain(failure.tail) from failure


def explain(tail: str) -> Gb10Error:
    """The error for pip's last lines."""
    cause = next((cause for cause in CAUSES if any(words in tail for words in cause.words)), OTHER)
    return cause.error(cause.message, where=last_lines(tail, PIP_TAIL), hint=cause.hint)


def say(text: str) -> None:
    """Print one line to stderr."""
    print(f"gb10: {text}", file=sys.stderr, flush=True)
