"""The image that a recipe names: a release of an engine, the newest one, or somebody's finished image. Pure."""

import re
from dataclasses import dataclass
from typing import Final

RELEASE: Final = r"v?(?P<release>\d+\.\d+(?:\.\d+)?(?:\.?(?:post|rc)\d+)?)"
NEWEST: Final = {"vllm": "the newest release of vLLM", "sglang": "the newest release of SGLang"}
REPOSITORIES: Final[tuple[tuple[str, str], ...]] = (
    ("vllm", r"vllm-node[\w.-]*"),
    ("vllm", r"(?:ghcr\.io/spark-arena/)?dgx-vllm-eugr-nightly[\w-]*"),
    ("vllm", r"eugr/spark-vllm[\w-]*"),
    ("vllm", r"(?:docker\.io/)?vllm/vllm-openai[\w-]*"),
    ("vllm", r"(?:docker\.io/)?scitrera/dgx-spark-vllm"),
    ("vllm", r"nvcr\.io/nvidia/vllm"),
    ("sglang", r"(?:docker\.io/)?lmsysorg/sglang"),
    ("sglang", r"(?:docker\.io/)?scitrera/dgx-spark-sglang"),
    ("sglang", r"nvcr\.io/nvidia/sglang"),
)
"""Images that are a plain build of an engine: ours takes their place."""
OURS: Final = ("gb10/vllm", "gb10/sglang")
DATED: Final = re.compile(r"(?:^|[-_])(20\d{6,8})(?:$|[-_.])")


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedImage:
    """``release`` is None for the newest."""

    release: str | None
    said: tuple[str, ...] = ()


def known_engine(container: str) -> str | None:
    """The engine of an image that is one of ours or a plain build by its makers; None for anybody else's."""
    name, _, digest = container.partition("@")
    repository = name.partition(":")[0] if "/" not in name.rpartition(":")[2] else name
    if digest:
        return None
    if repository in OURS:
        return repository.removeprefix("gb10/")
    return next((kind for kind, known in REPOSITORIES if re.fullmatch(known, repository)), None)


def image_of(container: str | None, engine: str, *, built: bool) -> NamedImage:
    """What an image's name asks for; raises ValueError with the reason when gb10 cannot build it.

    ``built``: eugr's launcher builds the image itself, so that a name without a registry is only a tag.
    """
    if container is None:
        return NamedImage(release=None, said=(f"no image is named: {NEWEST[engine]}",))
    name, _, digest = container.partition("@")
    if digest:
        raise ValueError(f"it names somebody's finished image by digest, {container[:100]}: there is nothing to build")
    repository, _, tag = name.partition(":") if "/" not in name.rpartition(":")[2] else (name, "", "")
    own = re.fullmatch(rf"gb10/(vllm|sglang):{RELEASE}(?:-.*)?", name)
    if own:
        if own[1] != engine:
            raise ValueError(f"its image {name} is not of {engine}, which its command starts")
        return NamedImage(release=own["release"])
    known = next((kind for kind, pattern in REPOSITORIES if re.fullmatch(pattern, repository)), None)
    if known is None and built and "/" not in repository:
        known = "vllm"
    if known is None:
        raise ValueError(f"it names somebody's finished image, {container[:100]}: there is nothing to build")
    if known != engine:
        raise ValueError(f"its image {name} is of {known}, and its command starts {engine}")
    return _tagged(repository, tag, engine, container)


def _tagged(repository: str, tag: str, engine: str, container: str) -> NamedImage:
    release = re.fullmatch(rf"{RELEASE}(?:-.*)?", tag)
    if release and not repository.startswith("nvcr.io/"):
        return NamedImage(release=release["release"])
    dated = DATED.search(tag)
    if dated:
        said = (
            f"{container} is a build of {dated[1][:4]}-{dated[1][4:6]}-{dated[1][6:8]}: {NEWEST[engine]} in its place"
        )
        return NamedImage(release=None, said=(said,))
    said = f"{container} is no release: {NEWEST[engine]} in its place"
    return NamedImage(release=None, said=(said,))
