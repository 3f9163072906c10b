"""What a rehearsal of an engine's release needs: packages, stand-ins, requests. Data, checked. Pure."""

import tomllib
from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field, ValidationError

from gb10.core.fields import Model
from gb10.errors import LockStaleError

FOLDER: Final = "recipes/rehearsal"
ANSWERS: Final = "recipes/explain"
"""Where the answers of the device and of compiled modules lie: ``explain`` gives the same."""
GIVEN: Final = (
    "script",
    "linked",
    "stand_ins",
    "present",
    "late",
    "returns",
    "deep_gemm",
    "lengths",
    "together",
    "caches",
)
"""What the stage gets as it stands."""
SHARED: Final = ("capability", "cuda", "compiled", "operators", "answers")


class Rehearsal(Model):
    """One engine's release."""

    engine: str
    script: str
    """The module beside ``rehearse.py`` that knows this engine."""
    caches: dict[str, str] = Field(min_length=1)
    """The folders of caches in the image, each a layer, and what is in them."""
    twins: tuple[str, ...] = Field(min_length=1)
    linked: tuple[str, ...] = Field(min_length=1)
    stand_ins: tuple[str, ...]
    present: tuple[str, ...] = ()
    late: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    returns: dict[str, int] = Field(default_factory=dict)
    deep_gemm: dict[str, int] = Field(default_factory=dict)
    lengths: tuple[int, ...]
    together: tuple[int, ...]
    numbers: dict[str, str]
    """The engine's arguments for the options that bound its batches."""
    options: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, str]
    image: dict[str, str]
    """Variables of the image, by which the engine finds what was made ahead."""
    answers: dict[str, Any] = Field(default_factory=dict)
    """Those of explain's file that a rehearsal gives, too."""
    arguments: dict[str, str] = Field(default_factory=dict)
    """The engine's argument for each option of ``--served-with``."""

    def request(
        self, config: Mapping[str, Any], options: Mapping[str, Any], environment: Mapping[str, str]
    ) -> dict[str, Any]:
        """What the rehearsal of one model reads: its config.json, the engine's options, the image's environment."""
        own = {name: getattr(self, name) for name in GIVEN}
        return {
            **self.answers,
            **own,
            "options": {**self.options, **{self.arguments[name]: value for name, value in options.items()}},
            "environment": {**environment, **self.environment},
            "limits": LIMITS,
            "config": config,
        }


LIMITS: Final = {"RLIMIT_CPU": 3600, "RLIMIT_CORE": 0}
"""Bounds on what a config can use up in a build stage."""


def read_rehearsal(engine: str, own: str, explain: str) -> Rehearsal:
    """The rehearsal of an engine, from the texts of its two files. Raises LockStaleError for one that is not valid."""
    try:
        given, facts = tomllib.loads(own), tomllib.loads(explain)
        found = Rehearsal.model_validate(given, strict=False)
        if facts["engine"] != found.engine:
            raise ValueError(f"it is of release {found.engine}, {ANSWERS}/{engine}.toml of {facts['engine']}")
        return found.model_copy(
            update={
                "answers": {name: facts[name] for name in SHARED},
                "stand_ins": (*facts["stand-ins"], *found.stand_ins),
                "present": (*facts["present"], *found.present),
                "arguments": {**facts["options"], **found.numbers},
            }
        )
    except (ValidationError, ValueError, KeyError) as error:
        raise LockStaleError(f"{FOLDER}/{engine}.toml is not valid", where=str(error)[:400]) from error
