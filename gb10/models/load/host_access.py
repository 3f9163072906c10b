"""What a recipe asks of the host of its containers: folders, devices, rights, limits. Pure.

Three places of a recipe say it: sparkrun's ``executor_config``, ``volumes`` at the top, and our own ``gb10.host``. They
are read in the forms of Docker's command line, and the same value comes out of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from posixpath import normpath
from typing import Final, TypeVar

from gb10.containers.container_options import HostAccess, HostMount
from gb10.models.issue import Issue
from gb10.models.load.known_keys import OURS
from gb10.models.load.model_recipe import At, ModelRecipe

OWN: Final = (OURS, "host")
NAMED: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,100}")
PATH: Final = re.compile(r"/[^:,\x00-\x1f\x7f\"\\]{0,400}")
"""What Docker takes as a path in all of its forms: a colon or a comma ends it."""
DEVICE: Final = re.compile(
    r"(?P<host>/dev/[\w./-]{1,100})(?::(?P<inside>/dev/[\w./-]{1,100}))?(?::(?P<rights>[rwm]{1,3}))?"
)
CAPABILITY: Final = re.compile(r"(?:CAP_)?(?P<name>[A-Z][A-Z_]{1,40})")
LIMIT: Final = re.compile(r"(?P<name>[a-z]{2,12})=(?P<soft>-1|\d{1,18})(?::(?P<hard>-1|\d{1,18}))?")
CPUS: Final = re.compile(r"\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?){0,63}")
HOST: Final = re.compile(r"(?=.{1,253}$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,62})(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,62}))*")
USER: Final = re.compile(r"[a-z_0-9][a-z0-9_-]{0,31}(?::[a-z_0-9][a-z0-9_-]{0,31})?")
OPTION: Final = re.compile(r"[a-z][a-z-]{1,40}(?:[=:][\w./:,=-]{1,200})?")
LABEL: Final = re.compile(r"[a-zA-Z0-9][\w./-]{0,127}")
IPC: Final = ("host", "private", "shareable", "none")
MODES: Final = {"": False, "rw": False, "ro": True, "readonly": True}
SIZE: Final = re.compile(r"(?P<number>\d{1,12}(?:\.\d{1,3})?)\s*(?P<unit>[kmgt]?)(?:i?b)?", re.IGNORECASE)
UNITS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
MOST: Final = 64
"""Entries of one key."""
NOTHING: Final[tuple[object, ...]] = (None, False, "", [], {}, ())
GATEWAY: Final = "host-gateway"
SHOWN: Final = 100
LONGEST: Final = 2000
"""Characters of a value; no form of one takes more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostRequestItem:
    """One thing that a recipe asks of the host: ``volumes``, ``/data:/data:ro``, and where it stands."""

    key: str
    value: str
    """The whole of it, so that who allows it has seen it."""
    line: int

    @property
    def text(self) -> str:
        """``KEY=VALUE``, as ``--allow`` takes it."""
        return f"{self.key}={self.value}"


@dataclass(frozen=True, kw_only=True, slots=True)
class HostRequest:
    """All of it as one value, each entry as it stands in the file, and what cannot be read."""

    access: HostAccess = field(default_factory=HostAccess)
    asked: tuple[HostRequestItem, ...] = ()
    issues: tuple[Issue, ...] = ()


class _WrongError(Exception):
    """A value is not of its key's form; the text says which form that is."""


def host_request(recipe: ModelRecipe) -> HostRequest:
    """What the recipe asks of its host, in the order of the file; a value that cannot be read is an issue."""
    access, asked, issues = HostAccess(), list[HostRequestItem](), list[Issue]()
    for key, at, value in _entries(recipe):
        try:
            access = READERS[key](access, value)
            asked.append(HostRequestItem(key=key, value=_one_line(value, LONGEST), line=recipe.line(*at)))
        except _WrongError as error:
            text = f"{key}: {_one_line(value, SHOWN)!r} is not {error}"
            fix = "write it as Docker's command line takes it, or remove it"
            line = recipe.line(*at)
            issues.append(Issue(code="wrong-value", level="error", file=recipe.file, line=line, text=text, fix=fix))
    targets = [mount.target for mount in access.mounts]
    twice = next((one for one in targets if targets.count(one) > 1), None)
    if twice:
        text, fix = f"two volumes are mounted at {twice}", "remove one of them"
        issues.append(Issue(code="wrong-value", level="error", file=recipe.file, line=0, text=text, fix=fix))
    return HostRequest(access=access, asked=tuple(asked), issues=tuple(issues))


def _entries(recipe: ModelRecipe) -> Iterator[tuple[str, At, object]]:
    """Each single entry with its key and its place; values that ask for nothing are left out."""
    for place, values in (
        (("executor_config",), recipe.section("executor_config")),
        ((), {"volumes": recipe.values.get("volumes")}),
        (OWN, recipe.section(OURS).get("host")),
    ):
        if not isinstance(values, Mapping):
            continue
        for key, value in values.items():
            if key not in READERS or value in NOTHING:
                continue
            at = (*place, str(key))
            if isinstance(value, Mapping) and key in JOINED:
                yield from ((key, (*at, str(name)), _joined(JOINED[key], name, one)) for name, one in value.items())
            elif isinstance(value, list | tuple):
                yield from ((key, (*at, number), one) for number, one in enumerate(value))
            else:
                yield key, at, value


def _joined(sign: str, name: object, value: object) -> str:
    """An entry of a mapping as the text that a list has; ``{bind: /b, mode: ro}`` is the form of Docker's library."""
    if isinstance(value, Mapping):
        value = ":".join(str(value[one]) for one in ("bind", "mode") if one in value)
    return f"{name}{sign}{value}"


def _matched(pattern: re.Pattern[str], value: object, what: str) -> re.Match[str]:
    found = pattern.fullmatch(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if found is None:
        raise _WrongError(what)
    return found


def _volume(access: HostAccess, value: object) -> HostAccess:
    """``/host:/container[:ro]``, or ``NAME:/container[:ro]`` of a named volume; a path alone is mounted at itself."""
    parts = str(value).split(":") if isinstance(value, str) else []
    source, target = (parts[0], parts[0]) if len(parts) == 1 else (parts[0], parts[1]) if parts else ("", "")
    mode = parts[2] if len(parts) == 3 else ""
    if len(parts) > 3 or mode not in MODES or not _plain_path(target):
        raise _WrongError("/HOST:/CONTAINER[:ro] or NAME:/CONTAINER[:ro]")
    if not (_plain_path(source) or NAMED.fullmatch(source)):
        raise _WrongError("an absolute path of the node, or the name of a volume")
    taken = ("/gb10/", "/proc/", "/sys/", "/dev/")
    if not target.strip("/") or f"{target.rstrip('/')}/".startswith(taken):
        raise _WrongError("mounted at a folder of its own: /, /proc, /sys, /dev and /gb10 are taken")
    mount = HostMount(source=source.rstrip("/") or "/", target=target.rstrip("/"), read_only=MODES[mode])
    return replace(access, mounts=_more(access.mounts, mount))


def _plain_path(path: str) -> bool:
    """Whether a path is absolute, has one spelling only, and can be written in each of Docker's forms."""
    whole = path.rstrip("/") or "/"
    return PATH.fullmatch(path) is not None and not path.startswith("//") and normpath(whole) == whole


def _device(access: HostAccess, value: object) -> HostAccess:
    found = _matched(DEVICE, value, "/dev/NAME[:/dev/NAME][:rwm]")
    if not all(_plain_path(path) for path in (found["host"], found["inside"]) if path):
        raise _WrongError("a path below /dev")
    device = f"{found['host']}:{found['inside'] or found['host']}:{found['rights'] or 'rwm'}"
    return replace(access, devices=_more(access.devices, device))


def _capability(access: HostAccess, value: object) -> HostAccess:
    name = _matched(CAPABILITY, value, "a capability, as SYS_NICE")["name"]
    return replace(access, cap_add=_more(access.cap_add, name))


def _security(access: HostAccess, value: object) -> HostAccess:
    option = _matched(OPTION, value, "a security option, as no-new-privileges")[0]
    return replace(access, security_opt=_more(access.security_opt, option))


def _privileged(access: HostAccess, value: object) -> HostAccess:
    if value is not True:
        raise _WrongError("true or false")
    return replace(access, privileged=True)


def _user(access: HostAccess, value: object) -> HostAccess:
    return replace(access, user=_matched(USER, value, "a user, as 1000:1000")[0])


def _ulimit(access: HostAccess, value: object) -> HostAccess:
    found = _matched(LIMIT, value, "NAME=SOFT[:HARD], as memlock=-1")
    soft, hard = int(found["soft"]), int(found["hard"] or found["soft"])
    return replace(access, ulimits={**access.ulimits, found["name"]: (soft, hard)})


def _ipc(access: HostAccess, value: object) -> HostAccess:
    if value not in IPC:
        raise _WrongError(f"one of {', '.join(IPC)}")
    return replace(access, ipc=str(value))


def _shared_memory(access: HostAccess, value: object) -> HostAccess:
    found = _matched(SIZE, value, "a size, as 32g")
    size = round(float(found["number"]) * (1 << UNITS[found["unit"].lower()]))
    if not size:
        raise _WrongError("a size of one byte or more")
    return replace(access, shm_size=size)


def _cpuset(access: HostAccess, value: object) -> HostAccess:
    return replace(access, cpuset=_matched(CPUS, value, "a list of CPUs, as 0-3,8")[0])


def _hostname(access: HostAccess, value: object) -> HostAccess:
    return replace(access, hostname=_matched(HOST, value, "a name of a host")[0])


def _extra_host(access: HostAccess, value: object) -> HostAccess:
    """``NAME:ADDRESS`` or ``NAME=ADDRESS``, as Docker takes both."""
    text = str(value) if isinstance(value, str) else ""
    name, _, address = text.partition("=" if "=" in text else ":")
    try:
        known = address == GATEWAY or bool(ip_address(address.strip("[]")))
    except ValueError:
        known = False
    if not known or HOST.fullmatch(name) is None:
        raise _WrongError("NAME:ADDRESS")
    return replace(access, extra_hosts={**access.extra_hosts, name: address})


def _label(access: HostAccess, value: object) -> HostAccess:
    name, _, text = str(value).partition("=") if isinstance(value, str) else ("", "", "")
    if LABEL.fullmatch(name) is None or not text.isprintable() or len(text) > 1000:
        raise _WrongError("NAME=VALUE")
    return replace(access, labels={**access.labels, name: text})


T = TypeVar("T")


def _more(have: tuple[T, ...], one: T) -> tuple[T, ...]:
    """One more entry, once. Raises _WrongError beyond MOST."""
    if len(have) >= MOST:
        raise _WrongError(f"one of at most {MOST}")
    return tuple(dict.fromkeys((*have, one)))


READERS: Final[Mapping[str, Callable[[HostAccess, object], HostAccess]]] = {
    "volumes": _volume,
    "devices": _device,
    "cap_add": _capability,
    "security_opt": _security,
    "privileged": _privileged,
    "user": _user,
    "ulimit": _ulimit,
    "ipc": _ipc,
    "shm_size": _shared_memory,
    "cpuset": _cpuset,
    "hostname": _hostname,
    "extra_hosts": _extra_host,
    "labels": _label,
}
JOINED: Final = {"volumes": ":", "ulimit": "=", "extra_hosts": ":", "labels": "="}
"""Keys that may be mappings, and what stands between a name and its value where they are lists."""


def _one_line(value: object, most: int) -> str:
    written = str(value).lower() if isinstance(value, bool) else str(value)
    text = " ".join("".join(char if char.isprintable() else " " for char in written).split())
    return text if len(text) <= most else f"{text[:most]}…"
