"""What an engine will do with a file, by rules of ours: the reason that goes with the engine's own verdict. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from packaging.version import Version

from gb10.image.moe.tuned_name import SPELLED, Family, TunedName, format_tuned_name

CLAMPS: Final = Version("0.5.14")
"""SGLang from here reads BLOCK_SIZE_K of every row of a dense file."""


def stop_reason(engine: str, version: str, meant: TunedName, rows: Mapping[int, Any], most: int) -> str | None:
    """Why the engine stops at a row that some batch size up to ``most`` gets; None when it does not."""
    needed = _needed(engine, meant)
    every = (engine == "sglang" and meant.family == "dense" and Version(version) >= CLAMPS) or bool(
        meant.shape.get("down")
    )
    for size, row in rows.items() if every else used_rows(rows, most).items():
        if needed is not None and not isinstance(row, Mapping):
            return f"the row of {size} is {row!r:.40}, no object"
        absent = [name for name in needed or () if name not in row]
        if absent:
            return f"the row of {size} has no {absent[0]}"
    kinds = {type(row["BLOCK_SIZE_M"]) for row in rows.values()} if meant.shape.get("down") else set()
    return "BLOCK_SIZE_M is a text in one row and a number in another" if {str, int} <= kinds else None


def _needed(engine: str, meant: TunedName) -> tuple[str, ...] | None:
    """Keys that the engine itself reads of a row; None when it hands the row on as it is."""
    if meant.family == "mamba":
        return ("BLOCK_SIZE_M", "num_warps")
    if meant.family == "dense":
        return () if engine == "vllm" else ("BLOCK_SIZE_K",)
    if meant.family == "moe" and meant.shape["down"]:
        return ("BLOCK_SIZE_M",)
    packed = meant.family == "moe" and meant.shape["dtype"] in ("int4_w4a16", "int8_w8a16")
    return () if engine == "vllm" and packed else None


def used_rows(rows: Mapping[int, Any], most: int) -> dict[int, Any]:
    """The rows that a batch of 1 to ``most`` gets."""
    return {key: rows[key] for key in {nearest(rows, size) for size in range(1, most + 1)}}


def nearest(rows: Mapping[int, Any], size: int) -> int:
    """The batch size in a file whose row is taken; of two equally near, the first in the file."""
    return min(rows, key=lambda key: abs(key - size))


Verdict = Literal["found", "not found", "raises"]
NAMED: Final = Version("0.5.12")
"""SGLang from here takes the folder of any version of Triton; before, one of OLD."""
OLD: Final = ("3.4.0", "3.3.1", "3.2.0", "3.1.0")


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """Where an engine looks for one family: its release, its Triton, and the files below the folder that it reads.

    ``folders``: names in the folder that has one for each Triton; None when that folder is not there.
    """

    engine: str
    version: str
    triton: str
    family: Family
    files: Mapping[str, bytes]
    folders: Sequence[str] | None = ()
    dtypes: Sequence[str | None] = ()
    folder: str = ""
    most: int = 8192


@dataclass(frozen=True, slots=True)
class Expected:
    """A verdict and its reasons, one sentence each."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


def expected_verdict(look: Look, meant: TunedName | None, place: str) -> Expected:
    """What the engine will do with the file at ``place`` below the folder that it reads."""
    if meant is None:
        return Expected("not found", ("its name is of none of the families of tuned files",))
    reasons = unused_reason(look, meant)
    if reasons:
        return Expected("not found", tuple(reasons))
    name = format_tuned_name(look.engine, meant)
    opened = _opened(look, name)
    if isinstance(opened, Expected):
        return opened
    if opened != place:
        return Expected("not found", (_elsewhere(look, meant, name, place, opened),))
    first = _opened(look, name.replace("_down.json", ".json"))
    return first if isinstance(first, Expected) else _content(look, meant, look.files[place])


def unused_reason(look: Look, meant: TunedName) -> list[str]:
    """Why the engine asks for no such file on a GB10; nothing when it does."""
    if meant.device.lower() != SPELLED.lower():
        return [f"it is for {meant.device or 'no GPU'}: a GB10 is {SPELLED}"]
    dtype = meant.shape.get("dtype")
    if meant.family == "moe" and dtype not in (None, *look.dtypes):
        known = ", ".join(sorted(name for name in look.dtypes if name))
        return [f"{look.engine} {look.version} names no file by dtype={dtype}; it knows {known}"]
    return []


def _opened(look: Look, name: str) -> str | Expected | None:
    """The path that the engine opens, None for none; or what it does instead."""
    if look.family not in ("moe", "lora") or look.engine == "vllm":
        return name if name in look.files else None
    exact = f"{look.folder}/triton_{look.triton.replace('.', '_')}/{name}"
    if exact in look.files:
        return exact
    versions = _versions(look)
    if isinstance(versions, Expected):
        return versions
    paths = (f"{look.folder}/{version}/{name}" for version in versions)
    return next((path for path in paths if path in look.files), None)


def _versions(look: Look) -> Sequence[str] | Expected:
    """The folders of other versions, in the order in which SGLang looks."""
    if look.family == "moe" and Version(look.version) < NAMED:
        return [f"triton_{version.replace('.', '_')}" for version in OLD]
    if look.folders is None:
        missing = f"{look.folder}/ is missing: SGLang lists it"
        return Expected("raises", (missing,)) if look.family == "moe" else []
    folders = [folder for folder in look.folders if folder.startswith("triton_")]
    if look.family == "lora":
        return sorted(folders, reverse=True)
    numbers = {}
    for folder in folders:
        try:
            numbers[folder] = tuple(int(part) for part in folder.removeprefix("triton_").replace("_", ".").split("."))
        except ValueError:
            return Expected("raises", (f"the folder {folder} is no version of Triton: every MoE model fails",))
    return sorted(folders, key=lambda folder: numbers[folder], reverse=True)


def _elsewhere(look: Look, meant: TunedName, name: str, place: str, opened: str | None) -> str:
    """Why the engine does not open the file at ``place``."""
    given = place if meant.family == "helion" else place.rpartition("/")[2]
    if given != name:
        return f"its name differs from {name}: {difference(given, name)}"
    if opened:
        return f"{opened} is read before it"
    if look.engine == "sglang" and meant.family in ("moe", "lora"):
        versions = f"the Triton of {look.version} is {look.triton}"
        return f"{look.engine} looks in {look.folder}/triton_X_Y_Z/ and does not take this folder; {versions}"
    return f"{look.engine} looks for {name} at the top of the folder, not in {place.rpartition('/')[0]}"


def difference(given: str, wanted: str) -> str:
    """The first difference of two names in words."""
    if given.lower() == wanted.lower():
        return "capital letters count"
    if given.replace(" ", "") == wanted.replace(" ", ""):
        return "blanks count"
    same = next((at for at, (one, two) in enumerate(zip(given, wanted, strict=False)) if one != two), None)
    at = min(len(given), len(wanted)) if same is None else same
    return f"from character {at + 1} it has {given[at : at + 24]!r}, not {wanted[at : at + 24]!r}"


def _content(look: Look, meant: TunedName, content: bytes) -> Expected:
    parsed = _parsed(meant.family, content)
    if isinstance(parsed, Expected):
        return parsed
    if meant.family == "helion":
        return _entries(parsed)
    if not isinstance(parsed, dict):
        verdict: Verdict = "not found" if meant.family == "mamba" else "raises"
        return Expected(verdict, ("the top of its JSON is no object",))
    keys = rows_of(look.engine, meant.family, parsed)
    if isinstance(keys, Expected):
        return keys
    if not keys:
        verdict = "raises" if meant.family == "lora" else "found"
        return Expected(verdict, ("it has no row: the engine takes its defaults",))
    bad = stop_reason(look.engine, look.version, meant, keys, look.most)
    return Expected("raises", (bad,)) if bad else Expected("found")


def _parsed(family: Family, content: bytes) -> object:
    """The JSON as Python reads it, or what the engine does when that fails."""
    try:
        return json.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        return Expected("raises", ("it is no UTF-8",))
    except RecursionError:
        return Expected("raises", ("its JSON is nested too deep",))
    except ValueError as error:
        return Expected("not found" if family == "helion" else "raises", (f"it is no JSON: {error}",))


def _entries(parsed: object) -> Expected:
    if not parsed:
        return Expected("not found", ("it has no entry",))
    entries = parsed if isinstance(parsed, list) else [None]
    good = all(
        isinstance(entry, dict)
        and {"key", "config"} <= entry.keys()
        and (not entry["key"] or isinstance(entry["key"], dict))
        and isinstance(entry["config"], dict)
        for entry in entries
    )
    return Expected("found") if good else Expected("raises", ("it is no list of objects with `key` and `config`",))


def rows_of(engine: str, family: Family, parsed: Mapping[str, Any]) -> dict[int, Any] | Expected:
    """The rows by batch size, as the engine reads the keys."""
    known = {"triton_version"} if engine == "vllm" and family in ("moe", "mamba") else set()
    rows: dict[int, Any] = {}
    for key, row in parsed.items():
        if key in known or (family == "mamba" and not key.isdigit()):
            continue
        try:
            rows[int(key)] = row
        except ValueError:
            return Expected("raises", (f"the key {key!r} is no number: {engine} reads every key as one",))
    return rows
