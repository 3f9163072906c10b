"""Options: what decides an image besides recipe and lock (arch, patches, mods, overlay, kernel set). Pure."""

from dataclasses import dataclass, replace

from gb10.core.fields import Architecture
from gb10.core.files import digest
from gb10.core.machine import MACHINES
from gb10.errors import UsageError
from gb10.image.recipe.arch import Arch
from gb10.image.recipe.image_recipe import PLAIN, Layout
from gb10.image.recipe.slim_rules import Extent


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlay:
    """A directory copied over the image's root as its last layer."""

    path: str
    digest: str


def short_label(name: str, sha256: str) -> str:
    """``name@sha256`` with the first 12 digits."""
    return f"{name}@{sha256[:12]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The local checkout that a patch was made from. ``commit`` is empty outside git.

    For labels and records only: keys cover the patch's content.
    """

    path: str
    commit: str = ""
    dirty: bool = False

    @property
    def label(self) -> str:
        """As labels name it."""
        return f"{self.commit or 'no-commit'}{'-dirty' if self.dirty else ''}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchUse:
    """A patch for a locked file of ``project``. ``path`` is set for a patch from ``--patch`` or ``--source``.

    ``folder``: the folder of the archive that bundles the patched source; empty for the project itself.
    """

    source: str
    project: str
    name: str
    sha256: str
    path: str | None = None
    installable: bool = True
    """Whether a wheel holds what it changes; else only a source archive that is compiled does."""
    compiled: bool = False
    """Whether it changes what an engine's own project compiles; a diff given by hand may do both."""
    folder: str = ""
    layout: Layout = PLAIN
    """Of a diff given by hand, where its source keeps files: it may name them as the repository does."""
    taken: Taken | None = None
    """The checkout that it was made from, where it is no file of the user's."""
    url: str = ""
    """Where a diff was fetched from, without login and query. For labels and records only."""
    whole: str = ""
    """The sha256 of the diff that was given, where this is a part of it. For labels and records only."""

    @property
    def label(self) -> str:
        """As labels name it."""
        return short_label(self.name, self.sha256)

    @property
    def patch(self) -> str:
        """Of a series: the patch without its variant, as SOURCE/NNNN-slug."""
        return f"{self.source}/{self.name.removesuffix('.patch').partition('@')[0]}"

    @property
    def inputs(self) -> tuple[str, ...]:
        """What keys cover of it, beside its folder: the content, and of a diff given by hand the layout."""
        return (self.sha256, digest(self.layout.model_dump())) if self.path else (self.sha256,)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mod:
    """A folder with ``run.sh`` that changes the image. ``digest`` covers its files."""

    name: str
    path: str
    digest: str
    network: bool = False

    @property
    def label(self) -> str:
        """As labels name it."""
        return short_label(self.name, self.digest)


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """The model whose kernels are compiled ahead, how the engine serves it, and its config.json as text."""

    name: str
    config: str
    options: tuple[tuple[str, str | int], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the image, by which the engine finds what was made ahead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What the command line decides; ``build`` is the architecture of the building machine."""

    arch: Arch
    platform: str
    build: Architecture
    overlay: Overlay | None = None
    patches: tuple[PatchUse, ...] = ()
    mods: tuple[Mod, ...] = ()
    targets: tuple[str, ...] = ()
    """Targets of the engine's own project that the command line names, and not the recipe."""
    kernels: str | None = None
    """The kernel set of the engine's kernels that the command line names, and not the recipe."""
    refs: tuple[str, ...] = ()
    """Sources of which the command line names another release than the recipe."""
    without: tuple[str, ...] = ()
    """Optional layers of the recipe that the image does not have."""
    unpatched: tuple[str, ...] = ()
    """Patches of the recipe's series that the image does not have, as SOURCE/NNNN-slug."""
    slim: Extent = "publishable"
    """Which rules of recipes/slim.yaml the image applies."""
    served: Served | None = None
    """The model that a rehearsal serves; None where there is none, or the release has no rehearsal."""

    foreign: bool = False
    """Whether the plan was read from an image, which anybody could have made. In no key."""

    @property
    def by_hand(self) -> bool:
        """Whether it holds files that nobody reviewed; mods come after all that is compiled."""
        return self.foreign or self.overlay is not None or any(use.path for use in self.patches)

    def patches_of(self, project: str) -> tuple[PatchUse, ...]:
        """The patches for one project's files, in order."""
        return tuple(use for use in self.patches if use.project == project)

    @property
    def nameless(self) -> "Options":
        """The options without the origin of patches, as keys cover them."""
        return replace(self, patches=tuple(replace(use, taken=None, url="", whole="") for use in self.patches))

    @property
    def target(self) -> Architecture:
        """The image's architecture, in Debian's and OCI's spelling."""
        for name in MACHINES:
            if self.platform == f"linux/{name}":
                return name
        raise UsageError(f"unsupported platform {self.platform!r}", hint="valid: linux/arm64, linux/amd64")
