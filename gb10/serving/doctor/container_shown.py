"""A container that serves a model, as its engine and its image tell of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gb10.serving.doctor.host_state import Machine
from gb10.serving.doctor.image_record import ImageRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerShown:
    """A container. ``command`` is what it runs, in one line; ``environment`` may hold secrets: it is never shown."""

    name: str
    host: str
    image: str = ""
    record: ImageRecord | None = None
    command: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    gpus: bool = False
    """It asks for a GPU itself."""
    privileged: bool = False
    runtime: str = ""
    memlock: int | None = None
    """Bytes that it may lock; None where it has its engine's own limit, -1 for no limit."""
    runs: bool = True
    hosts: int = 1
    """The machines of its service."""
    machine: Machine | None = None
    """Where it runs, if that was read."""

    @property
    def label(self) -> str:
        """``HOST NAME``: also the name of its log."""
        return f"{self.host} {self.name}".strip()
