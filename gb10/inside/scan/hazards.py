"""Files that are dangerous in an image: that give rights, that everybody may write, that hold a secret."""

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

LARGEST = 1 << 20
"""Bytes of a file in which secrets are looked for; a file with one has a few kilobytes."""
NAMED = {
    ".netrc": rb"\bpassword\s+\S",
    ".git-credentials": rb"://[^\s:/@]*:[^\s@]+@",
    ".pypirc": rb"^\s*password\s*[:=]\s*\S",
    "pip.conf": rb"://[^\s:/@]*:[^\s@]+@",
    "uv.toml": rb"://[^\s:/@]*:[^\s@]+@",
    ".npmrc": rb"_auth(?:Token)?\s*=\s*\S",
    "config.json": rb"\"auth\"\s*:\s*\"[A-Za-z0-9+/=]{8,}",
    "credentials": rb"aws_secret_access_key\s*=\s*\S",
    "stored_tokens": rb"hf_token\s*=\s*\S",
}
"""Files whose name says what they are for, and how the secret stands in them; some only in the folder below."""
FOLDERS = {"config.json": (".docker", ".containers"), "credentials": (".aws",)}
PATTERNS = (
    ("a private key", b"PRIVATE KEY-----", rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/=\r\n]{64}"),
    ("a token of the Hugging Face Hub", b"hf_", rb"\bhf_[A-Za-z]{34}\b"),
    ("a token of GitHub", b"gh", rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{82})\b"),
    ("a token of GitLab", b"glpat-", rb"\bglpat-[A-Za-z0-9_-]{20}\b"),
    ("a token of the package index", b"pypi-AgEIcHlwaS5vcmc", rb"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}"),
    ("a token of NGC", b"nvapi-", rb"\bnvapi-[A-Za-z0-9_-]{60,}"),
    ("a key of AWS", b"AKIA", rb"\bAKIA[A-Z0-9]{16}\b"),
    ("a key of OpenAI or Anthropic", b"sk-", rb"\bsk-(?:proj-|ant-)[A-Za-z0-9_-]{40,}"),
)
"""What the secret is, bytes that every such file contains, and its pattern."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hazard:
    """One file or folder; ``kind`` is setuid, setgid, writable or secret, ``what`` is of a secret."""

    path: str
    kind: str
    what: str = ""


def of_mode(name: str, mode: int) -> Iterator[Hazard]:
    """Rights that the mode of a file or folder gives to everybody; a folder with the sticky bit, like /tmp, is fine."""
    file = stat.S_ISREG(mode)
    if file and mode & stat.S_ISUID:
        yield Hazard(path=name, kind="setuid")
    if file and mode & stat.S_ISGID and mode & stat.S_IXGRP:
        yield Hazard(path=name, kind="setgid")
    if (file or stat.S_ISDIR(mode)) and mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        yield Hazard(path=name, kind="writable")


def of_name(path: Path, name: str, size: int) -> Iterator[Hazard]:
    """A secret in a file whose name says that it is for one."""
    place = PurePosixPath(name)
    pattern, folders = NAMED.get(place.name), FOLDERS.get(place.name, (place.parent.name,))
    read = pattern and size <= LARGEST and place.parent.name in folders
    if pattern and read and re.search(pattern, path.read_bytes(), re.MULTILINE):
        yield Hazard(path=name, kind="secret", what=f"a password or token in {place.name}")


def of_content(content: bytes, name: str) -> Iterator[Hazard]:
    """Secrets that have a known form."""
    for what, sign, pattern in PATTERNS:
        if sign in content and re.search(pattern, content):
            yield Hazard(path=name, kind="secret", what=what)
