"""Inside a build stage: ninja starts the units in an order that ends early, whatever their module.

    unit_order.py DIR NINJA [ARGUMENTS…]          put the units in order, then run ninja

FlashInfer writes a ninja file for each module, and one above them with a line ``subninja FILE`` for each. Ninja starts
units as it reads them, so the last long ones would run alone, and large ones would wait for each other's memory while
cores have nothing to do. Each unit whose cost is known gets a file of its own, and what is left of a module comes
behind them all. The links keep their order of objects: this changes when a unit is compiled, never a library.

DIR is what compile_slots.py wrote: ``units`` in peaks.json has CPU seconds and MiB by module and object, pool.json the
jobs of the builder and its memory in slots. Ninja files of another form are left as they are.
"""

import heapq
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

SUB = "subninja "
BUILD = "build "
OBJECT = re.compile(r"^build \S+\.o: (?:cuda_)?compile ", re.MULTILINE)

Costs = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class Part:
    """The text of a ninja file; of a unit also its CPU seconds and the slots of memory that it takes."""

    text: str
    seconds: float = 0.0
    slots: int = 0


def main() -> None:
    """Run ninja in place of this process."""
    folder, ninja, argv = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if "-f" in argv[:-1]:
        file = argv.index("-f") + 1
        argv[file] = str(in_order(Path(argv[file]), read(folder / "peaks.json")["units"], read(folder / "pool.json")))
    os.execv(ninja, [ninja, *argv])


def read(path: Path) -> dict[str, Any]:
    """A JSON file of compile_slots.py."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def in_order(file: Path, costs: Costs, pool: Mapping[str, int]) -> Path:
    """The file that ninja is to read instead: FILE itself without costs, or when it is relative or names no module."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_absolute() else []
    modules = [Path(line.removeprefix(SUB)) for line in lines if line.startswith(SUB)]
    if not modules or not costs:
        return file
    parts = [*chain.from_iterable(split(module, costs, pool["mib"]) for module in modules)]
    rest = [part for part in parts if not part.seconds]
    unknown = sum(len(OBJECT.findall(part.text)) for part in rest)
    if unknown:
        print(f"units without a measured time in units.toml: {unknown}; they start last", flush=True)
    units = schedule((part for part in parts if part.seconds), pool["jobs"], pool["slots"])
    kept = [line for line in lines if not line.startswith(SUB)]
    return write_parts(file, kept, [*units, *rest])


def write_parts(file: Path, head: list[str], parts: list[Part]) -> Path:
    """A file for each part, and one above them that names them in this order."""
    folder = file.parent / "unit-order"
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.ninja" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        path.write_text(part.text, encoding="utf-8")
    (folder / file.name).write_text("\n".join([*head, *(f"{SUB}{path}" for path in paths), ""]), encoding="utf-8")
    return folder / file.name


def split(module: Path, costs: Costs, slot: int) -> Iterator[Part]:
    """A module's file in parts: one for each unit of known cost, and the rest. ``slot``: its MiB."""
    head, *statements = blocks(module.read_text(encoding="utf-8"))
    rest = head
    for statement in statements:
        if cost := cost_of(statement, costs):
            yield Part(head + statement, cost["cpu_s"], -int(-cost["peak_mib"] // slot))
        else:
            rest += statement
    yield Part(rest)


def blocks(text: str) -> Iterator[str]:
    """The text before the first ``build``, then each ``build`` with its indented lines, and the text between them."""
    block = ""
    inside = False
    for line in text.splitlines(keepends=True):
        begins = line.startswith(BUILD)
        if begins or (inside and not line.startswith(" ")):
            yield block
            block = ""
            inside = begins
        block += line
    yield block


def cost_of(statement: str, costs: Costs) -> Mapping[str, float] | None:
    """CPU seconds and MiB of the unit that a ``build`` statement makes; None if not measured, or another statement."""
    if not statement.startswith(BUILD):
        return None
    made = Path(statement.removeprefix(BUILD).partition(":")[0])
    return costs.get(made.parent.name, {}).get(made.name)


def schedule(units: Iterable[Part], jobs: int, slots: int) -> Iterator[Part]:
    """The units as they start when each free job takes the longest whose memory is free; a unit alone always starts.

    List scheduling, longest processing time first (Graham, Bounds on multiprocessing timing anomalies, 1969), with
    memory as a second resource.
    """
    waiting = sorted(units, key=lambda unit: -unit.seconds)
    now, ends = 0.0, list[tuple[float, int]]()
    while waiting:
        fitting = (unit for unit in waiting if unit.slots <= slots or not ends)
        found = next(fitting, None) if len(ends) < jobs else None
        if found is None:
            now, freed = heapq.heappop(ends)
            slots += freed
            continue
        waiting.remove(found)
        heapq.heappush(ends, (now + found.seconds, found.slots))
        slots -= found.slots
        yield found


if __name__ == "__main__":
    main()
