"""Signatures: OpenSSH's own (``ssh-keygen -Y``), by keys that a file of allowed signers names."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gb10.core.proc import CommandFailedError, capture
from gb10.errors import UsageError, VerifyError

WHEELS: Final = "gb10-wheels"
IMAGES: Final = "gb10-images"
"""What a signature is for: one that the same key made of a commit, or of a mail, is none of ours."""
NO_PROGRAM: Final = 127


def sign(text: str, key: Path, env: Mapping[str, str], *, meant: str) -> str:
    """The armoured signature of a text, by a private key, or by the agent that holds a public one's other half.

    ``meant``: what it is for. Raises UsageError: no ssh-keygen, no such key.
    """
    try:
        return _keygen("sign", "-f", str(key), "-n", meant, stdin=text, env=env)
    except CommandFailedError as error:
        raise UsageError(
            f"cannot sign with {key}",
            where=error.tail,
            hint="name a private ssh key, or the public half of one in ssh-agent",
        ) from error


def verify(text: str, signature: Path, signers: Path, env: Mapping[str, str], *, meant: str) -> str:
    """Who signed a text, by the name of the key in ``signers``; raises VerifyError for other keys and other texts."""
    named = ("-f", str(signers), "-s", str(signature))
    try:
        signer = _keygen("find-principals", *named, env=env).splitlines()[0]
    except CommandFailedError as error:
        raise VerifyError(
            f"no key in {signers} made the signature",
            where=error.tail,
            hint="if you trust the key, add it there: its owner, then the key",
        ) from error
    try:
        _keygen("verify", *named, "-I", signer, "-n", meant, stdin=text, env=env)
    except CommandFailedError as error:
        raise VerifyError(
            f"the signature by {signer} is of another text",
            where=error.tail,
            hint="it was changed after it was signed: ask its owner",
        ) from error
    return signer


def _keygen(act: str, *options: str, env: Mapping[str, str], stdin: str = "") -> str:
    argv: Sequence[str] = ("ssh-keygen", "-Y", act, *options)
    try:
        return capture(argv, env=env, stdin=stdin)
    except CommandFailedError as error:
        if error.returncode == NO_PROGRAM:
            raise UsageError(
                "there is no ssh-keygen here, which makes and checks signatures", hint="apt install openssh-client"
            ) from error
        raise
