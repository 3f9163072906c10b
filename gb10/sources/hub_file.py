"""A file of a repository of the Hub, as its list has it. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class HubFile:
    """A file of a commit: large ones have the sha256 of their bytes, small ones git's own SHA-1 of a blob."""

    path: str
    size: int
    blob: str
    sha256: str | None = None

    @property
    def etag(self) -> str:
        """The name of its content in the Hub's cache on a machine."""
        return self.sha256 or self.blob
