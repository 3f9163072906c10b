"""Image references: checked and split as the engine reads them, before hours of work end in a bad name."""

import re

from gb10.errors import UsageError

LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
DOMAIN = re.compile(rf"(?:{LABEL}(?:\.{LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
PART = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
IDENTIFIER = re.compile(r"[a-f0-9]{64}")
DIGEST = re.compile(r"sha256:[a-f0-9]{64}")
NAME_LENGTH = 255
"""The grammar: github.com/distribution/reference, reference.go and normalize.go."""
HINT = "write [REGISTRY[:PORT]/]NAME[:TAG], the name in lower case: my/vllm, registry.example:5000/vllm:gb10"
NAMESPACE = "io.github.gb10"
"""Of the labels of our images, and of the containers that run."""


def check_reference(tag: str) -> str:
    """The reference with its tag written out, ``:latest`` when it has none; raises UsageError. Pure."""
    repository, name = split_reference(tag)
    reason = _repository(repository) or (None if TAG.fullmatch(name) else f"{name!r} is not a tag")
    if reason:
        raise UsageError(f"not an image reference: {tag!r}", where=reason, hint=HINT)
    return f"{repository}:{name}"


def is_reference(text: str) -> bool:
    """Whether a text can name an image of an engine, by tag, digest or id. Pure."""
    name, at, digest = text.partition("@")
    repository, tag = split_reference(name)
    named = _repository(repository) is None or IDENTIFIER.fullmatch(repository) is not None
    return named and TAG.fullmatch(tag) is not None and (not at or DIGEST.fullmatch(digest) is not None)


def split_reference(reference: str) -> tuple[str, str]:
    """Repository and tag; a colon before the last ``/`` is a port's. Pure."""
    head, slash, last = reference.rpartition("/")
    name, colon, tag = last.partition(":")
    return f"{head}{slash}{name}", tag if colon else "latest"


def registry_of(reference: str) -> str | None:
    """The registry's host that a reference names, None for a name that Docker reads as one of docker.io. Pure."""
    return _domain(reference)[0]


def split_digest(reference: str) -> tuple[str, str | None]:
    """``repository@sha256:…`` as its two parts; the digest is None where none is named. Pure."""
    repository, at, digest = reference.partition("@")
    if at and not DIGEST.fullmatch(digest):
        raise UsageError(f"not an image reference: {reference!r}", where=f"{digest!r} is no digest", hint=HINT)
    return repository, digest or None


def _repository(repository: str) -> str | None:
    """What is wrong with it, None when nothing is."""
    if "@" in repository:
        return "a digest cannot be chosen, only a tag"
    domain, path = _domain(repository)
    if domain is not None and not DOMAIN.fullmatch(domain):
        return f"{domain!r} is not a registry's host"
    wrong = next((part for part in path.split("/") if not PART.fullmatch(part)), None)
    if wrong is not None:
        return f"{wrong!r} is not a part of a name" if wrong else "a part of the name is empty"
    if IDENTIFIER.fullmatch(repository):
        return "64 hex digits name an image's id"
    return f"the name is longer than {NAME_LENGTH} characters" if len(repository) > NAME_LENGTH else None


def _domain(repository: str) -> tuple[str | None, str]:
    """The first part is a host when it has a dot, a port or a capital, or is ``localhost``."""
    first, slash, rest = repository.partition("/")
    is_host = slash and (first == "localhost" or any(sign in first for sign in ".:") or first != first.lower())
    return (first, rest) if is_host else (None, repository)
