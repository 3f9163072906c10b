"""Where programs for the GPU run: in the image under test, or by a Python of this machine."""

import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from gb10.containers.connection import Engine
from gb10.containers.image_programs import run_worker
from gb10.containers.images import ImageInfo
from gb10.core.installation import PACKAGE
from gb10.core.proc import CommandFailedError, stream
from gb10.serving.selftest.outcome import NotCheckedError

PROGRAMS: Final = "inside/selftest"
WORK: Final = "/opt/gb10-selftest"
LACKS: Final = re.compile(r"No module named '([\w.]+)'")
"""What a program says of a package that the place does not have."""
Line = Mapping[str, Any]


class Place(Protocol):
    """Runs one of our programs; ``on_line`` gets each line. Returns its exit code."""

    def run(self, argv: Sequence[str], env: Mapping[str, str], on_line: Callable[[str], None]) -> int:
        """Run a file of gb10/inside/selftest, with its arguments."""


@dataclass(frozen=True, kw_only=True)
class ImagePlace:
    """A container of the image, with the GPU and without a network."""

    engine: Engine
    image: ImageInfo
    gpus: bool = True

    def run(self, argv: Sequence[str], env: Mapping[str, str], on_line: Callable[[str], None]) -> int:
        """By the image's Python."""
        settings = [f"{name}={value}" for name, value in env.items()]
        command = [
            "env",
            f"PYTHONPATH={WORK}",
            *settings,
            "python3",
            f"{WORK}/gb10/{PROGRAMS}/{argv[0]}",
            *argv[1:],
        ]
        return run_worker(self.engine, self.image, command, on_line, folder=WORK, files=programs(), gpus=self.gpus)


@dataclass(frozen=True, kw_only=True)
class LocalPlace:
    """A Python of this machine that has the engine's packages."""

    python: Path
    env: Mapping[str, str]

    def run(self, argv: Sequence[str], env: Mapping[str, str], on_line: Callable[[str], None]) -> int:
        """By that Python, in a folder that is removed."""
        with tempfile.TemporaryDirectory(prefix="gb10-selftest-") as folder:
            for name, content in programs().items():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_bytes(content)
            path = ":".join(filter(None, (folder, self.env.get("PYTHONPATH", ""))))
            own = {**self.env, **env, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
            command = [str(self.python), f"{folder}/gb10/{PROGRAMS}/{argv[0]}", *argv[1:]]
            try:
                stream(command, log=Path(folder) / "log", env=own, on_line=on_line)
            except CommandFailedError as error:
                return error.returncode
        return 0


def programs() -> dict[str, bytes]:
    """The files that travel: our programs, and the scanner that they share with build stages; with their packages."""
    folders = [PACKAGE / PROGRAMS, PACKAGE / "inside/scan"]
    found = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    packages = {
        folder / "__init__.py" for path in found for folder in path.parents if PACKAGE in (folder, *folder.parents)
    }
    return {f"gb10/{path.relative_to(PACKAGE)}": path.read_bytes() for path in sorted({*found, *packages})}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What a program printed."""

    code: int
    lines: Sequence[Line]
    """Its results."""
    text: str
    """All of it."""

    def one(self, kind: str) -> Line:
        """The last result of a kind. Raises NotCheckedError when the program broke off before it."""
        found = [line for line in self.lines if line.get("kind") == kind]
        if not found:
            raise NotCheckedError(self.why)
        return found[-1]

    @property
    def why(self) -> str:
        """Why there is no result."""
        lacks = LACKS.search(self.text)
        if lacks:
            return f"there is no Python package {lacks[1]!r} where it runs"
        last = next((line.strip() for line in reversed(self.text.splitlines()) if line.strip()), "it printed nothing")
        return f"the program broke off with exit code {self.code}: {last[:300]}"


def run_program(place: Place, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Ran:
    """Run one of our programs to its end."""
    lines: list[Line] = []
    texts: list[str] = []

    def on_line(text: str) -> None:
        texts.append(text)
        if text.startswith('{"kind"'):
            try:
                lines.append(json.loads(text))
            except ValueError:
                texts.append("(the line before is no JSON)")

    code = place.run(argv, env or {}, on_line)
    return Ran(code=code, lines=lines, text="\n".join(texts))
