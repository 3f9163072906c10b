"""Signatures by ssh keys over the digests of manifests: of images and of the documents beside them.

Each lies in the registry beside what it signs.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.reference import NAMESPACE, split_digest
from gb10.containers.registry.referrers import CREATED, Artifact, Descriptor, open_referrers
from gb10.core.host import Host
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


KIND: Final = "application/vnd.gb10.signature.ssh.v1"
SIGNATURE: Final = f"{NAMESPACE}.signature"
"""The annotation with the armoured signature."""
MOST: Final = 100
"""Signatures of one image that are looked at: anybody who may push may add some."""
UNSIGNED: Final = "its owner signs it: ./build.py publish … --sign KEY"


def signed_text(digest: str) -> str:
    """What is signed: a line with the digest of the manifest, and with it every byte of the image. Pure."""
    return f"{digest}\n"


def check_signers(signers: Path) -> None:
    """Raise UsageError for a file of signers that is not there."""
    if not signers.is_file():
        raise UsageError(f"there is no file {signers}", hint="write an allowed_signers file: man ssh-keygen")


def sign_image(host: Host, engine: Engine, name: str, digests: Sequence[str], key: Path) -> None:
    """Sign the manifests of a published name and of its documents, unless they have this key's signature.

    Raises UsageError, PublishError.
    """
    with open_referrers(host.store, host.env, engine, name) as place:
        for digest in digests:
            text = sign(signed_text(digest), key, host.env, meant=IMAGES)
            if not any(one.annotations.get(SIGNATURE) == text for one in place.of(digest)):
                now = datetime.now(UTC).isoformat(timespec="seconds")
                place.attach(digest, Artifact(kind=KIND, annotations={SIGNATURE: text, CREATED: now}))


def require_signer(host: Host, engine: Engine, name: str, signers: Path) -> str:
    """Who of ``signers`` signed ``repository@digest``; raises VerifyError when nobody did, PublishError."""
    digest = split_digest(name)[1]
    if digest is None:
        raise AssertionError(name)
    with open_referrers(host.store, host.env, engine, name) as place:
        return signer_of(host, name, digest, place.of(digest), signers)


def signer_of(host: Host, name: str, digest: str, beside: Iterable[Descriptor], signers: Path) -> str:
    """The same for a manifest of an image or a document, of which all that lies beside it is known."""
    found = [one for one in beside if one.artifactType == KIND and SIGNATURE in one.annotations]
    if not found:
        raise VerifyError(f"{name} is not signed", where=f"no {KIND} is attached to it", hint=UNSIGNED)
    reasons = []
    for one in found[:MOST]:
        try:
            with host.store.folder("signature") as folder:
                (folder / "sig").write_text(one.annotations[SIGNATURE], encoding="utf-8")
                return verify(signed_text(digest), folder / "sig", signers, host.env, meant=IMAGES)
        except VerifyError as error:
            reasons.append(error.message)
    where = "\n".join(dict.fromkeys(reasons))
    raise VerifyError(f"{name} is not signed by anyone in {signers}", where=where, hint=UNSIGNED)
