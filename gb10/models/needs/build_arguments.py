"""``build_args``: the options of eugr's build-and-copy.sh, as what an image of ours needs in their place. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

RELEASE: Final = re.compile(r"v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:post|rc)\d+)?)")
MOVING: Final = frozenset({"main", "master", "nightly", "latest"})
NO_EFFECT: Final = {
    **dict.fromkeys(("--use-wheels", "--force-flashinfer-download", "--force-vllm-download", "--force-download"), 0),
    **dict.fromkeys(("--copy-parallel", "--full-log", "--no-build", "--cleanup", "--no-cache", "--setup"), 0),
    **dict.fromkeys(("-j", "--build-jobs", "-u", "--user", "--network", "--config", "-t", "--tag"), 1),
    **dict.fromkeys(("-c", "--copy-to", "--copy-to-host"), 1),
}
"""Options that change where or how fast that script builds, and how many values they have."""
TRANSFORMERS: Final = frozenset({"--tf5", "--pre-tf", "--pre-transformers"})
REBUILDS: Final = {"--rebuild-vllm": "vllm", "--rebuild-flashinfer": "flashinfer"}
LOCKED: Final = {
    "--torch-version": "torch",
    "--torchvision-version": "torchvision",
    "--torchaudio-version": "torchaudio",
}
REFS: Final = {"--vllm-ref": "vllm", "--flashinfer-ref": "flashinfer"}
PULLS: Final = {"--apply-vllm-pr": "vllm", "--apply-flashinfer-pr": "flashinfer"}
HEAD: Final = re.compile(r"(?:refs/)?pull/(\d{1,6})(?:/head|/merge)?")
PULL: Final = re.compile(r"(?:https://github\.com/[\w.-]+/[\w.-]+/pull/)?(\d{1,6})/?")


COMMIT: Final = re.compile(r"[0-9a-f]{40}")
HOMES: Final = {
    "vllm": "https://github.com/vllm-project/vllm",
    "flashinfer": "https://github.com/flashinfer-ai/flashinfer",
}
REPOSITORY: Final = re.compile(r"https://[\w.-]+(?:/[\w.~-]+)+?(?:\.git)?/?")


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildArguments:
    """``refs``: releases by source; ``sources``: commits, as ``--source`` takes them; ``pulls``: (source, number).

    ``layers`` are optional layers that are asked for.
    """

    refs: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    pulls: tuple[tuple[str, int], ...] = ()
    layers: tuple[str, ...] = ()
    mxfp4: bool = False
    said: tuple[str, ...] = ()


def read_arguments(texts: Sequence[str]) -> BuildArguments:
    """The arguments, each a word or several; raises ValueError with the reason for one that gb10 cannot follow."""
    reader = _Reader()
    words = [part for text in texts for word in text.split() for part in _parts(word)]
    while words:
        name = words.pop(0)
        if name in NO_EFFECT:
            del words[: NO_EFFECT[name] if words and not words[0].startswith("-") else 0]
        elif not reader.switch(name):
            reader.valued(name, words.pop(0) if words else "")
    return reader.arguments()


def _parts(word: str) -> list[str]:
    name, equals, value = word.partition("=")
    return [name, value] if equals and name.startswith("--") else [word]


class _Reader:
    """What the arguments say so far; a repository and its ref may come in any order."""

    def __init__(self) -> None:
        self.wanted: dict[str, str] = {}
        self.homes = dict(HOMES)
        self.pulls: list[tuple[str, int]] = []
        self.layers: list[str] = []
        self.said: list[str] = []
        self.mxfp4 = False

    def switch(self, name: str) -> bool:
        """Take an argument without a value; whether it was one."""
        if name in TRANSFORMERS:
            self.said.append(f"{name}: the release asks for its own transformers, so there is nothing to choose")
        elif name in REBUILDS:
            self.said.append(f"{name}: gb10 compiles what is missing; to compile again add --rebuild {REBUILDS[name]}")
        elif name == "--apply-preset-vllm-prs":
            self.said.append(f"{name}: that script's own list of pull requests is not applied")
        elif name in ("--exp-mxfp4", "--experimental-mxfp4"):
            self.mxfp4 = True
        elif name in ("--exp-b12x", "--experimental-b12x"):
            self.layers.append("b12x")
        else:
            return False
        return True

    def valued(self, name: str, value: str) -> None:
        """Take an argument with its value; raises ValueError with the reason."""
        if name in REFS:
            self.wanted[REFS[name]] = value
        elif name in PULLS:
            number = PULL.fullmatch(value)
            if number is None:
                raise ValueError(f"'{name} {value[:60]}' names no pull request")
            self.pulls.append((PULLS[name], int(number[1])))
        elif name in LOCKED:
            self.said.append(f"{name} {value}: the lock of the release decides {LOCKED[name]}")
        elif name == "--gpu-arch":
            self.said.append(f"{name} {value}: --arch decides, 12.1f when it is not given")
        elif name == "--vllm-repo" and REPOSITORY.fullmatch(value):
            self.homes["vllm"] = value.rstrip("/").removesuffix(".git")
        else:
            raise ValueError(f"its build argument {name[:60]!r} has no counterpart here")

    def arguments(self) -> BuildArguments:
        """All of it; raises ValueError for a branch, or for a fork without a commit."""
        refs: dict[str, str] = {}
        sources: list[str] = []
        for source, value in self.wanted.items():
            release, head = RELEASE.fullmatch(value), HEAD.fullmatch(value)
            own = self.homes[source] == HOMES[source]
            if COMMIT.fullmatch(value):
                sources.append(f"{source}=git:{self.homes[source]}@{value}")
                self.said.append(f"{source} at {value[:12]}: what this commit changes of the locked release")
            elif release and own:
                refs[source] = release[1]
            elif head and own:
                self.said.append(f"--{source}-ref {value}: the newest release with this pull request in its place")
                self.pulls.append((source, int(head[1])))
            elif value in MOVING and own:
                self.said.append(f"--{source}-ref {value}: the newest release in its place")
            else:
                raise ValueError(_branch(source, value, self.homes[source]))
        if self.homes["vllm"] != HOMES["vllm"] and "vllm" not in self.wanted:
            raise ValueError(_branch("vllm", "its newest commit", self.homes["vllm"]))
        return BuildArguments(
            refs=refs,
            sources=tuple(sources),
            pulls=tuple(self.pulls),
            layers=tuple(self.layers),
            mxfp4=self.mxfp4,
            said=tuple(self.said),
        )


def _branch(source: str, value: str, home: str) -> str:
    fork = "" if home == HOMES[source] else f" of the fork {home[:80]}"
    return (
        f"it wants {source} at {value[:60]}{fork}, which moves; gb10 builds releases, and commits of 40 digits:"
        f" --source {source}=git:{home[:80]}@COMMIT"
    )
