"""The name of a tuned file: what its author meant, however it is written, and how each engine writes that. Pure."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import Field, ValidationError

from gb10.core.fields import Model, Releases
from gb10.errors import LockStaleError, UsageError

TABLE = "recipes/moe/engines.toml"
Family = Literal["moe", "dense", "mamba", "lora", "helion"]
TITLES: Mapping[Family, str] = {
    "moe": "fused MoE",
    "dense": "dense block FP8",
    "mamba": "Mamba state update",
    "lora": "SGLang LoRA",
    "helion": "Helion",
}


class Home(Model):
    """A family's module, the folder of its files beside it, and the variable that names another folder.

    ``kernels`` are the modules that may have the function ``kernel``, which gets the rows.
    """

    modules: tuple[str, ...] = Field(min_length=1)
    folder: str
    versioned: bool = False
    """The folder has one folder for each version of Triton."""
    variable: str | None = None
    kernels: tuple[str, ...] = ()
    kernel: str = ""


class EngineTable(Model):
    """One engine."""

    also: tuple[str, ...]
    triton: dict[Releases, str] = Field(default_factory=dict)
    families: dict[Family, Home]

    def triton_of(self, version: Version) -> str | None:
        """The Triton of a release; None when nobody wrote it down."""
        found = (triton for releases, triton in self.triton.items() if version in SpecifierSet(releases))
        return next(found, None)


class Tables(Model):
    """Every engine."""

    vllm: EngineTable
    sglang: EngineTable


def read_table(root: Path, engine: str) -> EngineTable:
    """An engine's table; raises UsageError for another engine, LockStaleError for a table that is not valid."""
    try:
        tables = Tables.model_validate(tomllib.loads((root / TABLE).read_text(encoding="utf-8")), strict=False)
    except (ValidationError, ValueError) as error:
        raise LockStaleError(f"{TABLE} is not valid", where=str(error)[:400]) from error
    if engine not in Tables.model_fields:
        raise UsageError(f"moe does not know the engine {engine!r}", hint=f"it knows {', '.join(Tables.model_fields)}")
    table: EngineTable = getattr(tables, engine)
    return table


DEVICE: Final = "NVIDIA GB10"
SPELLED: Final = DEVICE.replace(" ", "_")
DTYPES: Final[Mapping[str, str | None]] = {
    "float8": "fp8_w8a8",
    "fp8": "fp8_w8a8",
    "int4": "int4_w4a16",
    "bf16": None,
    "bfloat16": None,
    "fp16": None,
    "float16": None,
    "none": None,
}
"""Words that are no name of an engine's, and what is meant."""
WORD: Final = r"\s*=\s*['\"]?([A-Za-z0-9_]+?)(?=_down|[^A-Za-z0-9_]|$)"
NUMBER: Final = r"\s*=\s*(\d{1,9})"
BLOCK: Final = re.compile(r"block_?shape\s*=\s*[\[(]?\s*(\d{1,6})\s*[,xX ]\s*(\d{1,6})\s*[\])]?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TunedName:
    """A file's family, and the parameters that its author meant, by the engines' names for them."""

    family: Family
    shape: Mapping[str, Any]
    device: str


def parse_tuned_name(path: str) -> TunedName | None:
    """What a path names; None when it is of no family. Letters' case, blanks and order do not matter."""
    parent, _, name = path.replace("\\", "/").rpartition("/")
    numbers = {field: _number(name, field) for field in ("E", "N", "K", "R", "S", "headdim", "dstate")}
    device = _word(name, "device_name") or _word(name, "device") or ""
    if numbers["E"] and numbers["N"]:
        return TunedName("moe", _experts(name, numbers), device)
    kind = re.search(r"lora_(shrink|expand)", name, re.IGNORECASE)
    if kind and numbers["K"] and numbers["R"] and numbers["S"]:
        shape = {field: numbers[field] for field in ("K", "R", "S")}
        return TunedName("lora", {"kernel": kind[1].lower(), **shape}, device)
    if numbers["headdim"] and numbers["dstate"]:
        state = (_word(name, "cache_dtype") or "").lower()
        return TunedName("mamba", {**_some(numbers, "headdim", "dstate"), "cache_dtype": state}, device)
    if numbers["N"] and numbers["K"] and _block(name):
        return TunedName("dense", {**_some(numbers, "N", "K"), "block": _block(name)}, device)
    if parent and re.fullmatch(r"(nvidia|amd|tesla)[\w .-]*\.json", name, re.IGNORECASE):
        stem = name[: -len(".json")]
        return TunedName("helion", {"kernel": parent.rpartition("/")[2]}, re.sub(r"[ -]+", "_", stem))
    return None


def _experts(name: str, numbers: Mapping[str, int | None]) -> dict[str, Any]:
    dtype = (_word(name, "dtype") or "none").lower()
    down = re.search(r"_down\b|_down\.|down$", name, re.IGNORECASE)
    return {
        **_some(numbers, "E", "N"),
        "dtype": DTYPES.get(dtype, dtype),
        "block": _block(name),
        "per_channel": re.search(r"per_channel_quant\s*=\s*(true|1)", name, re.IGNORECASE) is not None,
        "down": down is not None,
    }


def _some(numbers: Mapping[str, int | None], *fields: str) -> dict[str, int | None]:
    return {field: numbers[field] for field in fields}


def _number(name: str, field: str) -> int | None:
    found = re.search(rf"(?<![A-Za-z_]){field}{NUMBER}", name, re.IGNORECASE)
    return int(found[1]) if found else None


def _word(name: str, field: str) -> str | None:
    found = re.search(rf"(?<![A-Za-z_]){field}{WORD}", name, re.IGNORECASE)
    return found[1] if found else None


def _block(name: str) -> list[int] | None:
    found = BLOCK.search(name)
    return [int(found[1]), int(found[2])] if found else None


def format_tuned_name(engine: str, meant: TunedName) -> str:
    """The name that an engine asks for on a GB10, relative to its folder."""
    shape = meant.shape
    if meant.family == "moe":
        return _spelled_experts(engine, shape)
    if meant.family == "dense":
        block = _blocks(engine, shape["block"])
        return f"N={shape['N']},K={shape['K']},device_name={SPELLED},dtype=fp8_w8a8{block}.json"
    if meant.family == "mamba":
        state = "float16" if shape["cache_dtype"] == "bfloat16" else shape["cache_dtype"]
        named = f"headdim={shape['headdim']},dstate={shape['dstate']}"
        return f"{named},device_name={SPELLED},cache_dtype={state}.json"
    if meant.family == "lora":
        return f"lora_{shape['kernel']},K={shape['K']},R={shape['R']},S={shape['S']},device={SPELLED}.json"
    return f"{shape['kernel']}/{SPELLED.lower()}.json"


def _spelled_experts(engine: str, shape: Mapping[str, Any]) -> str:
    dtype = f",dtype={shape['dtype']}" if shape["dtype"] else ""
    more = ""
    if engine == "sglang":
        more = (",per_channel_quant=True" if shape["per_channel"] else "") + ("_down" if shape["down"] else "")
    block = _blocks(engine, shape["block"]) if shape["block"] and all(shape["block"]) else ""
    return f"E={shape['E']},N={shape['N']},device_name={SPELLED}{dtype}{block}{more}.json"


def _blocks(engine: str, block: list[int]) -> str:
    blank = " " if engine == "sglang" else ""
    return f",block_shape=[{block[0]},{blank}{block[1]}]"


MOST: Final = 2
WORDS: Final[Mapping[str, str]] = {
    "dtype": "type",
    "block": "block shape",
    "per_channel": "quantization",
    "down": "half",
}


def nearest_files(asked: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Sentences about the nearest of the files that are there, by their paths; none when none is near."""
    wanted, name = parse_tuned_name(asked), PurePosixPath(asked).name
    if wanted is None:
        return ()
    known = ((path, meant) for path in paths if (meant := parse_tuned_name(path)) and meant.family == wanted.family)
    ranked = sorted((len(found), path, found) for path, meant in known if (found := list(_apart(wanted, meant))) != [])
    same = [path for path in paths if (meant := parse_tuned_name(path)) and not list(_apart(wanted, meant))]
    written = [f"{path} means the same and is written otherwise" for path in same if PurePosixPath(path).name != name]
    elsewhere = [f"{path} has this name, in another folder" for path in same if PurePosixPath(path).name == name]
    close = [f"{path} differs in {', '.join(found)}" for count, path, found in ranked if count <= 2]
    return tuple([*elsewhere, *written, *close][:MOST])


def _apart(wanted: TunedName, meant: TunedName) -> Iterator[str]:
    """What two names do not have in common."""
    if meant.device != wanted.device and SPELLED in (meant.device, wanted.device):
        yield "the device"
    for field, value in wanted.shape.items():
        other: Any = meant.shape.get(field)
        if other != value:
            yield WORDS.get(field, field)
