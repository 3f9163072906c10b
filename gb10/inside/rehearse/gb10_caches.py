"""Triton's cache with kernels that the image brings: those are read from the image, all others from the cache's folder.

Triton takes it by ``TRITON_CACHE_MANAGER=gb10_caches:Prepared``. Nothing is written where the image's kernels lie.
"""

from pathlib import Path

from triton.runtime.cache import FileCacheManager

FOLDER = Path("/usr/share/gb10/caches/triton")


class Prepared(FileCacheManager):  # type: ignore[misc]  # Triton is in the image, not here
    """The files of one kernel: the image's if it has them, else those of the cache's folder, where all are written."""

    cache_dir: str

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key, override, dump)
        self.prepared = None if override or dump else FOLDER / key

    def get_file(self, filename: str) -> str | None:
        """The path of one file, None where neither folder has it."""
        found = self.prepared / filename if self.prepared else None
        if found and found.exists():
            return str(found)
        path: str | None = super().get_file(filename)
        return path

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The paths of a kernel's files by their names; the list of an image's kernel has the paths in the image."""
        found = self._prepared_group(filename)
        if found is None:
            found = super().get_group(filename)
        return found

    def _prepared_group(self, filename: str) -> dict[str, str] | None:
        if self.prepared is None or not self.prepared.is_dir():
            return None
        own, self.cache_dir = self.cache_dir, str(self.prepared)
        try:
            found: dict[str, str] | None = super().get_group(filename)
            return found
        finally:
            self.cache_dir = own
