"""Texts without secrets: tokens, keys, passwords, logins, whatever they stand in. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from gb10.lint.written import SECRET

HIDDEN: Final = "***"
NAMES: Final = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|COOKIE|AUTH", re.IGNORECASE)
"""Variables that may hold a secret, by their names."""
WORD: Final = r"(?:token(?!iz)|api[_-]?key|secret|passw(?:or)?d|access[_-]?key)"
COUNT: Final = r"[\d.]+(?:[\s'\",;}\]]|\Z)"
"""A number that ends where the value does: of tokens, say."""
SECRETS: Final = (
    re.compile(r"(?P<keep>\b(?:https?|ftp|redis|s3|socks5h?)://)[^/\s:@'\"]{1,200}:?[^/\s@'\"]{0,200}@"),
    re.compile(r"(?P<keep>\bssh://)[^/\s:@'\"]{1,200}:[^/\s@'\"]{1,200}@"),
    re.compile(
        r"(?P<keep>\b(?:(?:proxy-)?authorization|x-api-key|cookie)['\"]?\s{0,4}[:=]\s{0,4})[^\r\n]{1,400}", re.I
    ),
    re.compile(
        rf"(?P<keep>{WORD}[\w-]{{0,20}}['\"]?\s{{0,4}}[:=]\s{{0,4}}['\"]?)(?!{COUNT})[^\s'\",;}}\]]{{6,400}}", re.I
    ),
    re.compile(rf"(?P<keep>--[\w-]{{0,40}}(?:{WORD}|-key)[ =]['\"]?)[^\s'\"]{{1,400}}", re.I),
    SECRET,
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"\b(?:xox[abprs]|github_pat|nvapi|gsk|dop_v1)[-_][\w-]{10,200}|\bAIza[\w-]{30,60}"),
    re.compile(r"\beyJ[\w-]{10,2000}\.[\w-]{4,4000}\.[\w-]{4,2000}"),
    re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\A.*?-----END [A-Z ]{0,40}PRIVATE KEY-----", re.DOTALL),
)
"""The group ``keep`` stays. The last one is a key whose beginning was cut off."""


def masked(text: str) -> str:
    """The text, with HIDDEN in place of what looks like a secret."""
    for pattern in SECRETS:
        text = pattern.sub(lambda found: f"{found.groupdict().get('keep') or ''}{HIDDEN}", text)
    return text


def masked_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables, without the values of those whose names speak of a secret."""
    return {name: HIDDEN if NAMES.search(name) and value else masked(value) for name, value in environment.items()}
