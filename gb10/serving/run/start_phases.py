"""How long the phases of a start took, by the head's own log; they are kept in its container.

The times are those that the engine of containers gave the lines, so they hold for every engine and every clock.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gb10.containers.connection import Engine
from gb10.containers.docker_containers import container_state, file_in, log_blocks, put_files
from gb10.core.reporter import clock
from gb10.serving.doctor.stages import DONE, STAGES, Stage, StageFile
from gb10.serving.run.service import FOLDER

FILE: Final = f"{FOLDER}/start.json"
LARGEST: Final = 16 << 10
LONG_S: Final = 30
"""A phase is worth a word from here on."""


class StartPhases(BaseModel):
    """Seconds of each phase of a start, in the order in which they came first; ``ready`` is their sum.

    A phase is a stage of recipes/doctor/stages.toml. The first begins with the container.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    phases: dict[Stage, Annotated[float, Field(ge=0, le=1e7)]]
    engine: str | None = None
    """Whose log it is; None in what an older gb10 kept."""
    first_answer: Annotated[float, Field(ge=0, le=1e7)] | None = None
    """Seconds of the first request, from its start to its last token."""

    @property
    def ready(self) -> float:
        """Seconds from the start of the container to the line that says ready."""
        return sum(self.phases.values())

    @property
    def line(self) -> str:
        """``ready after 1:52: import 0:21, load 1:20, …; first answer after 2.1 s``."""
        parts = ", ".join(f"{name} {clock(seconds)}" for name, seconds in self.phases.items())
        answer = "" if self.first_answer is None else f"; first answer after {self.first_answer:.1f} s more"
        return f"ready after {clock(self.ready)}: {parts}{answer}"

    def advice(self, stages: StageFile) -> str | None:
        """What shortens the longest phase; None where all are short, or nothing is known."""
        name = max(self.phases, key=lambda one: self.phases[one], default=None)
        text = stages.stage.get(name) if name is not None else None
        way = text.shortened_by(self.engine) if text else ""
        if name is None or not way or self.phases[name] < LONG_S:
            return None
        return f"the longest phase is {name}: {way}"

    @property
    def document(self) -> dict[str, object]:
        """For ``--json``."""
        return {"ready_s": round(self.ready, 1), "phases_s": self.phases, "first_answer_s": self.first_answer}

    @classmethod
    def of_log(cls, blocks: Iterable[bytes], began: str, stages: StageFile) -> Self | None:
        """The phases of a log whose lines have times in RFC 3339; None when no line says that the server is ready."""
        marks = [(text.encode(), one) for one in stages.mark for text in one.has]
        engine, phases = None, dict[Stage, float]()
        stage: Stage = STAGES[0]
        try:
            since = datetime.fromisoformat(began)
        except ValueError:
            return None
        for raw in _lines(blocks):
            when, _, said = raw.partition(b" ")
            found = next(
                (one for text, one in marks if text in said and one.engine in (None, engine or one.engine)), None
            )
            if found is None:
                continue
            try:
                now = datetime.fromisoformat(when.decode("ascii", "replace"))
            except ValueError:
                continue
            engine = engine or found.engine
            if found.stage == stage:
                continue
            phases[stage] = round(phases.get(stage, 0.0) + max(0.0, (now - since).total_seconds()), 1)
            stage, since = found.stage, now
            if STAGES.index(stage) >= DONE:
                return cls(phases=phases, engine=engine)
        return None


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    left = b""
    for block in blocks:
        *whole, left = (left + block).split(b"\n")
        yield from whole
        left = left[:LARGEST]
    yield left


def keep_phases(engine: Engine, container: str, stages: StageFile, first_answer: float) -> StartPhases | None:
    """The phases of a container's start, kept in it; None where its log does not show them. Raises EngineError."""
    state = container_state(engine, container)
    found = StartPhases.of_log(log_blocks(engine, container), state.started, stages) if state else None
    if found is None:
        return None
    found = found.model_copy(update={"first_answer": round(first_answer, 1)})
    put_files(engine, container, {FILE: (found.model_dump_json().encode(), 0o444)})
    return found


def read_phases(engine: Engine, container: str) -> StartPhases | None:
    """What was kept; None where nothing was, or it is not to be read. Raises EngineError."""
    content = file_in(engine, container, FILE, LARGEST)
    try:
        return StartPhases.model_validate(json.loads(content)) if content else None
    except (ValueError, ValidationError, RecursionError):
        return None
