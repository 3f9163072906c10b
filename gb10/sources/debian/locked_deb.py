"""A package of Debian's archive as a lock names it: by path and content, never by host."""

from gb10.core.fields import Model, PoolPath, Sha256, Size


class LockedDeb(Model):
    """One Debian package; ``path`` is relative to the root of any mirror of the archive."""

    name: str
    version: str
    architecture: str
    path: PoolPath
    sha256: Sha256
    size: Size

    @property
    def filename(self) -> str:
        """The file's own name, as the archive spells it."""
        return self.path.rsplit("/", 1)[-1]
