"""A saved benchmark of an endpoint (gb10/serve/v1), read strictly: it may come from elsewhere."""

import statistics
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gb10.core.files import read_plain_file
from gb10.errors import UsageError
from gb10.serving.guard.finding import Verdict

LARGEST_SERVE: Final = 256 << 20
Text = Annotated[str, Field(max_length=20_000)]
Number = Annotated[float | None, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class SavedRun(_Part):
    """The figures of one run."""

    warm_up: bool
    tok_s: Number
    steps_s: Number
    tokens_per_step: Number
    first_token_s: Number


class SavedCanaries(_Part):
    """How many of a batch were right."""

    when: Text
    count: Annotated[int, Field(ge=0)]
    right: Annotated[int, Field(ge=0)]


class SavedCounts(_Part):
    """What the server counted."""

    tokens_per_draft: Number
    accepted: list[Share]


class SavedLevel(_Part):
    """One answer length at one number of requests at once. Results before 0.3.0 do not name the length."""

    answer: Annotated[int, Field(ge=1)] | None = None
    concurrency: Annotated[int, Field(ge=1)]
    verdict: Verdict
    why: Text
    runs: list[SavedRun]
    canaries: list[SavedCanaries]
    looks: list[dict[str, Any]]
    counted: SavedCounts

    @property
    def right(self) -> tuple[int, int]:
        """Right canaries, of how many."""
        return sum(one.right for one in self.canaries), sum(one.count for one in self.canaries)

    def figure(self, name: str) -> float | None:
        """The mean of the runs that count; None where the answers are bad or a run lacks it."""
        found = [getattr(run, name) for run in self.runs if not run.warm_up]
        if self.verdict.bad or not found or None in found or min(found) <= 0:
            return None
        return statistics.fmean(found)


class SavedServe(_Part):
    """One launch, measured."""

    schema_name: Literal["gb10/serve/v1"] = Field(alias="schema")
    run_id: Text
    started: Text
    endpoint: Text
    model: Text
    boot: Text
    settings: dict[str, Any]
    machine: dict[str, Any]
    doubts: list[Text]
    unknown: list[Text]
    server: dict[str, Any]
    levels: list[SavedLevel]
    verdict: Verdict
    why: Text

    @property
    def lengths(self) -> tuple[int | None, ...]:
        """The answer lengths, in the order in which they were measured."""
        return tuple(dict.fromkeys(level.answer for level in self.levels))

    def level(self, concurrency: int) -> SavedLevel | None:
        """The level of so many requests; None when it was not measured."""
        return next((level for level in self.levels if level.concurrency == concurrency), None)


def read_serve(content: bytes | str, where: str) -> SavedServe:
    """The benchmark in a text. Raises UsageError."""
    try:
        return SavedServe.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise UsageError(
            f"{where} is no result of bench serve",
            where=f"{place}: {first['msg']}",
            hint="./build.py bench serve URL --out FILE writes one",
        ) from error


def read_serve_file(path: Path) -> SavedServe:
    """The benchmark of a file. Raises UsageError."""
    return read_serve(read_plain_file(path, LARGEST_SERVE), str(path))
