"""The marker instructions of each kernel, as NVIDIA's own disassembler reads them."""

import re
from collections import Counter
from pathlib import Path

from gb10.core.proc import capture
from gb10.inside.compile.markers import OPCODES

FUNCTION = re.compile(r"Function : (\S+)")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)")


def disassembled(tools: Path, path: Path) -> dict[str, Counter[str]]:
    """By kernel, how often each marker instruction stands in the text of cuobjdump."""
    found: dict[str, Counter[str]] = {}
    dump = capture([str(tools / "bin/cuobjdump"), "-sass", str(path)], env={"PATH": str(tools / "bin")})
    for line in dump.splitlines():
        if named := FUNCTION.search(line):
            found[named[1]] = Counter()
        elif (word := INSTRUCTION.search(line)) and word[1] in OPCODES.values():
            found[list(found)[-1]][word[1]] += 1
    return found
