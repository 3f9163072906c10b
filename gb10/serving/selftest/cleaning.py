"""Texts that name nobody: no host, address, serial number, user or token, in whatever they stand. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gb10.serving.doctor.masking import masked

PUBLIC: Final = frozenset(
    {
        "root",
        "nvidia",
        "ubuntu",
        "localhost",
        "gb10",
        "user",
        "vllm",
        "sglang",
        "docker",
        "home",
        "none",
        "null",
        "true",
        "false",
    }
)
"""Names of hosts and users that name nobody, and stand in other words' places."""
SITES: Final = ("nvidia.com", "github.com", "pytorch.org", "python.org", "vllm.ai", "huggingface.co")
"""Sites of the public: links to them name nobody."""
COLOUR: Final = re.compile(r"(?:\x1b|\\x1b|\\u001b|\\033)\[[0-9;]{0,20}[A-Za-z]")
ESCAPE: Final = r"(?:[abfnrtv]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})"
"""A line's end, a tab or another control inside a text of JSON or Python, after its backslash: words begin after it."""
LOOPBACK: Final = re.compile(r"(?:127\.\d+|0\.0)\.\d+\.\d+")
NAMESPACE: Final = re.compile(r"(?![Ff][C-Fc-f][0-9A-Fa-f]{2}:)(?:[A-Fa-f][0-9A-Fa-f]*)?(?:::[A-Fa-f][0-9A-Fa-f]*)+")
"""As C++ writes names (``c10::add``); addresses of networks begin with a digit, or with fc to ff and two digits."""
OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
IPV4: Final = re.compile(
    rf"(?<![\d.])(?<!==)(?<!ersion )(?<!ersion: ){OCTET}(?:\.{OCTET}){{3}}(?!\d|\.\d|-(?:py|cp)\d)"
)
"""A release of a library may have four numbers, too."""
MAC: Final = re.compile(
    r"(?<![0-9A-Fa-f])(?:(?:[0-9A-Fa-f]{2}[:-]){5,19}[0-9A-Fa-f]{2}|(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}"
    r"|(?:[0-9A-Fa-f]{4}:){3}[0-9A-Fa-f]{4}(?!:))(?![0-9A-Fa-f])"
)
"""Of Ethernet and InfiniBand; the last is a GUID."""
GUID: Final = re.compile(r"(?i)(?P<name>guid\b[\"']?\s{0,9}[:=]?\s{0,9}[\"']?)0x[0-9a-f]{16}\b")
GROUP: Final = "[0-9A-Fa-f]{1,4}"
IPV6: Final = re.compile(
    rf"(?:(?<![0-9A-Fa-f])(?:{GROUP}:){{7}}{GROUP}|(?<![0-9A-Za-z.])(?:{GROUP}(?::{GROUP}){{0,6}})?::[0-9A-Fa-f:.]{{1,39}})"
    r"(?:%\w{1,20})?(?![0-9A-Za-z])"
)
UUID: Final = re.compile(
    r"(?:GPU-|MIG-)?(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Fa-f])"
)
SERIAL: Final = re.compile(
    r"(?i)(?P<name>\b(?:serial(?:[ _-]?(?:number|no\b))?|s/n|sn(?=\s{0,9}[:=])|board[ _-]?id|asset[ _-]?tag"
    r"|machine[ _-]?id|boot[ _-]?id)\b[\"'#]{0,2}\s{0,40}(?:[:=,\t]|\s)\s{0,40}[\"']?)"
    r"(?!number\b|no\b)(?P<value>[A-Za-z0-9][A-Za-z0-9._-]{3,63})"
)
KEY: Final = re.compile(
    r"\b(?P<kind>(?:sk-)?(?:ssh-[a-z0-9]{2,10}|ecdsa-sha2-[a-z0-9]{2,20})(?:@openssh\.com)?) +"
    r"(?:AAAA|\*\*\*)[^\r\n\"'\\]*"
)
"""A public key of SSH, and the comment after it: that is whose it is."""
PRINT: Final = re.compile(r"\b(?P<hash>(?:SHA256|MD5):)\S{1,100} +[^\r\n()]{1,200}(?= \((?:RSA|DSA|ECDSA|ED25519)\))")
TOKEN: Final = re.compile(r"hf_[A-Za-z0-9]{20,}")
WINDOWS: Final = re.compile(r"(?i)(?P<root>\b[a-z]:\\{1,4}users\\{1,4})[^\\\s\"']+")
HOMES: Final = re.compile(r"(?i)(?P<root>(?:/|%2F)(?:home|users)(?:/|%2F))(?P<user>(?:(?!%2F)[^/\s\"':,;)\\])+)")
TILDE: Final = re.compile(r"(?<![\w~/.-])~[A-Za-z_][\w.-]{1,31}(?=/)")
LOGIN: Final = re.compile(
    r"\b[\w.+-]{1,64}@(?!sha\d{3}:|0x[0-9a-f]|plt\b|[A-Z]{3,10}_\d)"
    r"(?=[\w.-]{1,200})[\w-]{1,63}(?:\.[\w-]{1,63})*(?!\w*/)"
)
"""Of images, symbols of libraries and addresses in memory the word after @ is no host."""
NAME: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9_])?"
USERS: Final = (
    re.compile(rf"(?P<before>\b(?:USER|user|username|LOGNAME|SUDO_USER|login)[\"']?(?:=|: )[\"']?)(?P<name>{NAME})"),
    re.compile(
        rf"(?m)(?P<before>^[bcdlps-](?:[r-][w-][xsStT-]){{3}}[.+@]?\s{{1,9}}\d{{1,9}}\s{{1,9}})(?P<name>{NAME}\s{{1,9}}{NAME})"
    ),
)
"""As variables and ``ls -l`` write who somebody is."""
WHO: Final = re.compile(r"\b[eg]?[ug]id=\d{1,10}\([^()\s]{1,64}\)|\bgroups=(?:\d{1,10}\([^()\s]{1,64}\),?){1,64}")
"""As ``id`` writes it."""
STAMP: Final = r"^(?:\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]{8,15}(?:Z|[+-]\d\d:?\d\d)?) "
SENDER: Final = r"(?= (?:[\w./-]{1,64}\[\d{1,8}\]|kernel|sudo|systemd): )"
CODE: Final = r"(?!(?:py|so|cc|cpp|cu|cuh|h|hpp|js|json|log|md|rs|toml|txt|yaml)\b)"
PACKAGES: Final = (
    *("aiohttp", "asyncio", "concurrent", "cuda", "cutlass", "fastapi", "flashinfer", "gb10", "httpcore", "httpx"),
    *("importlib", "logging", "mooncake", "multiprocessing", "numba", "numpy", "nvidia", "outlines", "pydantic"),
    *("ray", "requests", "safetensors", "sglang", "starlette", "tokenizers", "torch", "torchaudio", "torchvision"),
    *("transformers", "triton", "urllib3", "uvicorn", "vllm", "xgrammar"),
)
"""Python's and the engines'."""
DOMAIN: Final = (
    r"(?:[a-z]{2}|arpa|biz|cloud|com|corp|dev|edu|gov|home|info|int|intern|internal|intranet|lab|lan|local"
    r"|localdomain|mil|net|org|private|test)"
)
MODULE: Final = rf"(?!(?:{'|'.join(PACKAGES)})\.(?:[A-Za-z][A-Za-z0-9]*\.){{0,6}}(?!{DOMAIN}:)[a-z]{{2,20}}:)"
"""Not a module of theirs, before the number of its line."""
BUILTIN: Final = r"(?<!\binproc)(?<!\bipc)(?<!\bunix)(?<!\bmem)(?<!\bshm)"
"""Schemes of addresses inside of a machine: what follows is no host."""
HOSTS: Final = (
    re.compile(rf"(?m)(?P<before>{STAMP})(?P<name>{NAME}){SENDER}"),
    re.compile(rf"(?P<before>)(?<![\w.-])(?P<name>{NAME})(?=:\d{{1,7}}:\d{{1,7}} \[\d{{1,3}}\] NCCL )"),
    re.compile(rf"(?P<before>\bLinux )(?P<name>{NAME})(?= \d{{1,2}}\.\d{{1,3}}\.\d)"),
    re.compile(rf"(?i)(?P<before>\b(?:host_?name|node_?name|host)[\"']?(?:=|: ?)[\"']?)(?P<name>{NAME})"),
    re.compile(rf"(?i)(?P<before>\b(?:resolve|connect to) host(?:name)?[ :]{{1,2}}[\"']?)(?P<name>{NAME})"),
    re.compile(rf"(?P<before>\b[A-Za-z][A-Za-z0-9+.-]{{1,20}}{BUILTIN}://)(?P<name>{NAME})"),
    re.compile(
        rf"(?P<before>)(?<![\w./@-]){MODULE}(?P<name>(?:[A-Za-z0-9-]{{1,63}}\.){{1,6}}{CODE}[a-z]{{2,20}})(?=:\d{{2,5}}(?:/|\b(?!\])))"
    ),
    re.compile(r"(?P<before>)(?<![\w./@-])(?P<name>(?:[A-Za-z0-9-]{1,63}\.){1,3}(?:lan|local|localdomain))(?![\w.-])"),
)
"""As syslog, NCCL, uname, errors and addresses of services write what a machine is called."""
NUMBER: Final = re.compile(r"\d{1,4}(?:\.\d{1,9})?")
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
        name = rf"(?:{'|'.join(map(re.escape, longest))})(?![A-Za-z0-9])"
        self._names = re.compile(rf"(?i)(?<![A-Za-z0-9]){name}") if words else None
        known_after = rf"(?!(?i:{name}))" if words else ""  # CORP\robert is a user, and no end of a line
        self._escaped = re.compile(rf"(\\{{1,4}}{known_after}{ESCAPE})")

    def clean(self, text: str) -> str:
        """The text, with a word for what stood there."""
        found = masked(COLOUR.sub("", text), self._secrets)
        found = WINDOWS.sub(r"\g<root><user>", found)
        parts = self._escaped.split(found)  # every second one is an escape
        return "".join(one if at % 2 else self._part(one) for at, one in enumerate(parts))

    def _part(self, text: str) -> str:
        """The same of a part in which no end of a line is escaped."""
        found = TOKEN.sub("***", KEY.sub(r"\g<kind> <key>", PRINT.sub(r"\g<hash><key>", text)))
        found = UUID.sub("<uuid>", SERIAL.sub(r"\g<name><serial>", found))
        found = TILDE.sub("~<user>", HOMES.sub(r"\g<root><user>", found))
        found = LOGIN.sub("<user>@<host>", found)
        found = IPV6.sub(_address, GUID.sub(r"\g<name><address>", found))
        found = IPV4.sub(_address, MAC.sub("<address>", found))
        found = WHO.sub("id=<user>", found)
        for shape in USERS:
            found = shape.sub(_user, found)
        for shape in HOSTS:
            found = shape.sub(_host, found)
        return self._names.sub("<name>", found) if self._names else found

    def cleaned(self, document: Any) -> Any:  # noqa: ANN401 - JSON
        """The same of each text in a document, and of keys: some are hosts."""
        if isinstance(document, str):
            return self.clean(document)
        if isinstance(document, Mapping):
            found: dict[str, Any] = {}
            for key, value in document.items():
                name = self.clean(str(key))
                while name in found:  # two hosts
                    name += "'"
                found[name] = self.cleaned(value)
            return found
        return [self.cleaned(one) for one in document] if isinstance(document, (list, tuple)) else document


def _address(found: re.Match[str]) -> str:
    """Loopback addresses stay, and names of C++."""
    stays = LOOPBACK.fullmatch(found[0]) or found[0] == "::1" or NAMESPACE.fullmatch(found[0])
    return found[0] if stays else "<address>"


def _user(found: re.Match[str]) -> str:
    """A name of everybody's stays, and a number."""
    return (
        found[0] if found["name"].lower() in PUBLIC or NUMBER.fullmatch(found["name"]) else f"{found['before']}<user>"
    )


def _host(found: re.Match[str]) -> str:
    """A name of everybody's, a public site, a number and what is cleaned stay."""
    name = found["name"].lower()
    public = name in PUBLIC or name.startswith("__") or any(f".{name}".endswith(f".{one}") for one in SITES)
    return found[0] if public or LOOPBACK.fullmatch(name) or NUMBER.fullmatch(name) else f"{found['before']}<host>"
