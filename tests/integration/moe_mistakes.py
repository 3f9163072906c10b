"""Mistakes in tuned files, by a seed: in the name, the folder, the keys, the rows, the bytes."""

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Laid:
    """A file below a folder that an engine reads, and empty folders beside it. ``label``: what is wrong."""

    path: str
    content: bytes
    label: str = "nothing"
    folders: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def renamed(self, name: str) -> "Laid":
        """The same in the same folder."""
        return replace(self, path=f"{self.path.removesuffix(self.name)}{name}")


Mistake = Callable[[Laid, random.Random], Laid]


def mistakes(base: Laid, count: int, seed: int) -> Iterator[Laid]:
    """``count`` files, each with one mistake or two."""
    chance = random.Random(seed)  # noqa: S311
    for number in range(count):
        made = base
        for name in chance.sample(sorted(MISTAKES), 1 if number % 3 else 2):
            made = replace(MISTAKES[name](made, chance), label=name if made is base else f"{made.label}, {name}")
        yield made


def _name(change: Callable[[str, random.Random], str]) -> Mistake:
    return lambda base, chance: base.renamed(change(base.name, chance))


def _keys(change: Callable[[dict[str, object], random.Random], object]) -> Mistake:
    def mistake(base: Laid, chance: random.Random) -> Laid:
        try:
            parsed = json.loads(base.content)
        except ValueError:
            return base
        if not isinstance(parsed, dict) or not parsed:
            return base
        return replace(base, content=json.dumps(change(parsed, chance)).encode())

    return mistake


def _bytes(change: Callable[[bytes, random.Random], bytes]) -> Mistake:
    return lambda base, chance: replace(base, content=change(base.content, chance))


def _place(change: Callable[[str, random.Random], str]) -> Mistake:
    return lambda base, chance: replace(base, path=change(base.path, chance))


def _first(rows: dict[str, object], key: str, chance: random.Random) -> dict[str, object]:
    old = chance.choice(sorted(rows))
    return {key if name == old else name: row for name, row in rows.items()}


def _inside(rows: dict[str, object], chance: random.Random, change: Callable[[dict[str, object]], object]) -> object:
    key = chance.choice(sorted(rows))
    row = rows[key]
    return {**rows, key: change(dict(row))} if isinstance(row, dict) and row else rows


def _without(row: dict[str, object], chance: random.Random) -> dict[str, object]:
    gone = chance.choice(sorted(row))
    return {name: value for name, value in row.items() if name != gone}


STRANGE = ("M=1", "1.5", "", "one", "batch", " 8 ", "1_0", "+4", "-1", "٣", "0x10", "1e3", "²", "default", "1,2")
MISTAKES: dict[str, Mistake] = {
    "blank after comma": _name(lambda name, _: name.replace(",", ", ", 1)),
    "blank in block": _name(lambda name, _: re.sub(r"\[(\d+), ?(\d+)\]", lambda m: _other(m[0]), name)),
    "blank in device": _name(lambda name, _: name.replace("NVIDIA_GB10", "NVIDIA GB10")),
    "small letters": _name(lambda name, _: name.lower()),
    "small device": _name(lambda name, _: name.replace("NVIDIA_GB10", "nvidia_gb10")),
    "other device": _name(lambda name, _: name.replace("GB10", "GB20")),
    "dtype word": _name(lambda name, _: name.replace("fp8_w8a8", "float8")),
    "unknown dtype": _name(lambda name, _: name.replace("fp8_w8a8", "nvfp4")),
    "dtype bf16": _name(lambda name, _: name.replace("GB10.json", "GB10,dtype=bf16.json")),
    "capital ending": _name(lambda name, _: name.replace(".json", ".JSON")),
    "ending twice": _name(lambda name, _: f"{name}.json"),
    "copy": _name(lambda name, _: name.replace(".json", " (1).json")),
    "down": _name(lambda name, _: name.replace(".json", "_down.json")),
    "per channel": _name(lambda name, _: name.replace(".json", ",per_channel_quant=True.json")),
    "backend": _name(lambda name, _: name.replace(".json", ",backend=flydsl.json")),
    "blank at end": _name(lambda name, _: name.replace(".json", " .json")),
    "fields swapped": _name(lambda name, _: re.sub(r"^(E=\d+),(N=\d+)", r"\2,\1", name)),
    "no name": _name(lambda name, chance: f"config{chance.randint(0, 9)}.json"),
    "version key": _keys(lambda rows, _: {"triton_version": "3.8.0", **rows}),
    "comment key": _keys(lambda rows, _: {**rows, "_comment": "tuned"}),
    "strange key": _keys(lambda rows, chance: _first(rows, chance.choice(STRANGE), chance)),
    "one key": _keys(lambda rows, chance: {key: rows[key] for key in [chance.choice(sorted(rows))]}),
    "no key": _keys(lambda rows, _: {}),
    "list": _keys(lambda rows, _: [rows]),
    "text": _keys(lambda rows, _: "tuned"),
    "null": _keys(lambda rows, _: None),
    "nested": _keys(lambda rows, _: {"configs": rows}),
    "null row": _keys(lambda rows, chance: {**rows, chance.choice(sorted(rows)): None}),
    "row is list": _keys(lambda rows, chance: {**rows, chance.choice(sorted(rows)): [16, 64, 128]}),
    "row lacks": _keys(lambda rows, chance: _inside(rows, chance, lambda row: _without(row, chance))),
    "row has more": _keys(lambda rows, chance: _inside(rows, chance, lambda row: {**row, "USE_TMA": True})),
    "deep tile": _keys(lambda rows, chance: _inside(rows, chance, lambda row: {**row, "BLOCK_SIZE_K": 256})),
    "text in row": _keys(lambda rows, chance: _inside(rows, chance, lambda row: {**row, "BLOCK_SIZE_M": "16"})),
    "cut": _bytes(lambda content, chance: content[: chance.randint(0, max(len(content) - 2, 0))]),
    "byte order mark": _bytes(lambda content, _: b"\xef\xbb\xbf" + content),
    "utf-16": _bytes(lambda content, _: content.decode("utf-8", "replace").encode("utf-16")),
    "latin": _bytes(lambda content, _: content.replace(b"{", b"{\n\xe9", 1)),
    "comma": _bytes(lambda content, _: content.rstrip().removesuffix(b"}") + b",}"),
    "comment": _bytes(lambda content, _: b"// tuned\n" + content),
    "nothing in it": _bytes(lambda content, _: b""),
    "not a number": _bytes(lambda content, _: content.replace(b"16", b"NaN", 1)),
    "deep": _bytes(lambda content, _: b"[" * 100_000),
    "folder below": _place(lambda path, _: f"tuned/{path}"),
    "top": _place(lambda path, _: path.rpartition("/")[2]),
    "folder of old triton": _place(lambda path, _: path.replace("triton_", "triton_3_5_0_", 1)),
    "folder of another triton": _place(lambda path, chance: re.sub(r"triton_[\d_]+", _version(chance), path)),
    "folder is a candidate": _place(lambda path, _: re.sub(r"(triton_[\d_]+)/", r"\1rc1/", path)),
    "folder without configs": _place(lambda path, _: path.removeprefix("configs/")),
    "strange folder beside": lambda base, _: replace(base, folders=("configs/triton_3_8_0_gb10",)),
    "folder beside": lambda base, chance: replace(base, folders=(f"configs/{_version(chance)}",)),
}


def _other(block: str) -> str:
    return block.replace(", ", ",") if ", " in block else block.replace(",", ", ")


def _version(chance: random.Random) -> str:
    return f"triton_{chance.choice(('3_1_0', '3_2_0', '3_4_0', '3_5_0', '3_7_1', '4_0_0'))}"
