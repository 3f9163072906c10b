"""Texts that name nobody: no host, address, serial number, user or token, in whatever they stand. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gb10.serving.doctor.masking import masked

PUBLIC: Final = frozenset({"root", "nvidia", "ubuntu", "localhost", "gb10", "user", "vllm", "sglang", "docker", "home"})
"""Names of hosts and users that name nobody, and stand in other words' places."""
LOOPBACK: Final = re.compile(r"(?:127\.\d+|0\.0)\.\d+\.\d+")
OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
IPV4: Final = re.compile(rf"(?<![\w.+-]){OCTET}(?:\.{OCTET}){{3}}(?![\w+-]|\.\d)")
MAC: Final = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}[:-]){5,7}[0-9A-Fa-f]{2}(?![0-9A-Fa-f])")
GROUP: Final = "[0-9A-Fa-f]{1,4}"
IPV6: Final = re.compile(
    rf"(?<![\w.])(?:(?:{GROUP}:){{7}}{GROUP}|(?:{GROUP}(?::{GROUP}){{0,6}})?::[0-9A-Fa-f:.]{{1,39}})(?:%\w{{1,20}})?(?![\w:])"
)
UUID: Final = re.compile(r"(?:GPU-|MIG-)?\b[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\b")
SERIAL: Final = re.compile(
    r"(?i)(?P<name>\b(?:serial(?:[ _-]?(?:number|no))?|s/n|board[ _-]?id|asset[ _-]?tag|machine[ _-]?id|boot[ _-]?id)\b"
    r"[\"']?\s{0,40}(?:[:=,\t]|\s)\s{0,40}[\"']?)(?P<value>[A-Za-z0-9][A-Za-z0-9._-]{3,63})"
)
HOMES: Final = re.compile(r"(?P<root>(?:/home|/Users|/data/home)/)(?P<user>[^/\s\"':,;)]+)")
LOGIN: Final = re.compile(r"\b[\w.+-]{1,64}@(?=[\w.-]{1,200})[\w-]{1,63}(?:\.[\w-]{1,63})*(?!\w*/)")
LEAST: Final = 2


class Cleaner:
    """Knows what a machine and its user are called."""

    def __init__(self, names: Iterable[str], secrets: Iterable[str] = ()) -> None:
        """``names``: of hosts, users and serial numbers. ``secrets``: values that no text may have."""
        known = {one.strip() for one in names}
        parts = {one.partition(".")[0] for one in known if not re.fullmatch(r"[\d.]+", one)}
        words = {one for one in known | parts if len(one) >= LEAST and one.lower() not in PUBLIC}
        self._secrets = tuple(secrets)
        longest = sorted(words, key=len, reverse=True)
        self._names = (
            re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest))})(?![A-Za-z0-9])")
            if words
            else None
        )

    def clean(self, text: str) -> str:
        """The text, with a word for what stood there."""
        found = masked(text, self._secrets)
        found = UUID.sub("<uuid>", SERIAL.sub(r"\g<name><serial>", found))
        found = HOMES.sub(r"\g<root><user>", found)
        found = LOGIN.sub("<user>@<host>", found)
        found = MAC.sub("<address>", IPV4.sub(_address, found))
        found = IPV6.sub(_address, found)
        return self._names.sub("<name>", found) if self._names else found

    def cleaned(self, document: Any) -> Any:  # noqa: ANN401 - JSON
        """The same of each text in a document; keys are ours."""
        if isinstance(document, str):
            return self.clean(document)
        if isinstance(document, Mapping):
            return {key: self.cleaned(value) for key, value in document.items()}
        return [self.cleaned(one) for one in document] if isinstance(document, (list, tuple)) else document


def _address(found: re.Match[str]) -> str:
    """Loopback addresses stay."""
    return found[0] if LOOPBACK.fullmatch(found[0]) or found[0] == "::1" else "<address>"
