"""Inside a build stage: the projects that an engine's own fetches from git, read out of its .cmake files.

One that is handed in lies in a folder, at the very pin that its file names, and the file stays: CMake reads the folder
by the variable that the file asks for. The files of the others are emptied: each defines targets of its own, and
nothing of another's.
"""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = "cmake/external_projects"
COMMENT = re.compile(r"(?m)#.*$")
ROCM = re.compile(r'(?is)\bif\s*\([^()]*"rocm"[^()]*\).*?\belse\s*\(\s*\)')
SET = re.compile(r'\bset\(\s*(\w+)\s+"?([^"\s()]+)"?\s*\)')
VARIABLE = re.compile(r"\bENV\{(\w+_SRC_DIR)\}")
TARGET = re.compile(r"\b(?:define_\w*target|add_custom_target)\(\s*(\w+)")
FULL = re.compile(r"[0-9a-f]{40}")
SHORT = re.compile(r"[0-9a-f]{7,39}")
RELEASE = re.compile(r"v?\d+(\.\d+)+")
COMPONENTS = re.compile(r"\bforeach\(\w*COMPONENT((?:\s+\w+)+)\)")


@dataclass(frozen=True, kw_only=True)
class Nested:
    """A nested project as its file has it; what the file does not say is empty.

    ``submodules`` is None where it names none: CMake would then fetch all of them.
    """

    name: str
    url: str
    pin: str
    submodules: tuple[str, ...] | None
    variable: str
    targets: tuple[str, ...]


def hand_in(options: argparse.Namespace) -> tuple[dict[str, str], list[Nested]]:
    """What CMake's environment says of those handed in, and all that there are; empties the files of the others.

    ``options.nested`` has name, pin and folder of each. Raises SystemExit for one that the engine has not, or at
    another pin.
    """
    files = sorted((options.source / FOLDER).glob("*.cmake"))
    known = {path.stem: read(path) for path in files}
    settings = {}
    for name, pin, folder in options.nested:
        if name not in known:
            raise SystemExit(f"the engine nests no project {name}; it nests: {', '.join(known) or 'none'}")
        check_pin(known[name], pin)
        settings[known[name].variable] = folder
        meant = "" if pin == known[name].pin else f" for the engine's {known[name].pin}, by the recipe"
        print(f"nested {name}: {pin}{meant}, in {folder}", flush=True)
    handed = {name for name, _, _ in options.nested}
    for path in files:
        if path.stem not in handed:
            path.write_text(f'message(STATUS "left out: {path.stem}")\n', encoding="utf-8")
    return settings, list(known.values())


def check_pin(nested: Nested, pin: str) -> None:
    """Raise SystemExit unless what is handed in is what the engine's own file names."""
    if not (nested.pin and nested.variable):
        raise SystemExit(
            f"{FOLDER}/{nested.name}.cmake names no GIT_TAG, or reads no *_SRC_DIR, as it is read here: "
            f"{nested.name} cannot be handed in"
        )
    if not meets(pin, nested.pin):
        raise SystemExit(
            f"the engine names {nested.name} {nested.pin}, the source brings {pin}: name the engine's in "
            f"the recipe's source {nested.name}, then ./build.py lock"
        )


def meets(pin: str, named: str) -> bool:
    """Whether a pin is what the engine names.

    A full commit may be what a short one at its beginning, a branch or an odd tag stands for: a recipe takes no such.
    """
    if kind(named) or not FULL.fullmatch(pin):
        return pin == named
    return not SHORT.fullmatch(named) or pin.startswith(named)


def read(path: Path) -> Nested:
    """A nested project's file, without its comments and what is for ROCm alone."""
    text = ROCM.sub("", COMMENT.sub("", path.read_text(encoding="utf-8")))
    variables = sorted(set(VARIABLE.findall(text)))
    components = (name for names in COMPONENTS.findall(text) for name in names.split())
    return Nested(
        name=path.stem,
        url=value(text, "GIT_REPOSITORY"),
        pin=value(text, "GIT_TAG"),
        submodules=submodules(text),
        variable=variables[0] if len(variables) == 1 else "",
        targets=tuple(dict.fromkeys((*TARGET.findall(text), *components))),
    )


def value(text: str, keyword: str) -> str:
    """What stands after a keyword: itself, or what a variable was set to; empty when that is not one word."""
    words = {match[1] for match in re.finditer(rf'\b{keyword}\s+"?([^"\s()]+)', text)}
    if len(words) != 1:
        return ""
    (word,) = words
    found = {told for name, told in SET.findall(text) if word == f"${{{name}}}"} if word.startswith("$") else {word}
    return found.pop() if len(found) == 1 else ""


def submodules(text: str) -> tuple[str, ...] | None:
    """The words after GIT_SUBMODULES, up to the next keyword."""
    found = re.search(r'\bGIT_SUBMODULES((?:\s+(?:"[^"]*"|(?![A-Z_]+\b)[^\s()"]+))+)', text)
    return tuple(word for word in (part.strip('"') for part in found[1].split()) if word) if found else None


def why_absent(target: str, nested: list[Nested], options: argparse.Namespace) -> str:
    """The nested project of a target that the main project lacks, and the ways out; empty when none has it."""
    owner = next((one for one in nested if target in one.targets), None)
    if owner is None:
        return ""
    if owner.name in {name for name, _, _ in options.nested}:
        return (
            f"\n{target} is a target of {owner.name}, not compiled by CMake for {options.arch}: leave it out of "
            "--targets, upstream's wheel has what there is"
        )
    inner = ", ".join(owner.submodules or ())
    told = "not named: CMake would fetch all there are" if owner.submodules is None else inner or "none"
    sort = kind(owner.pin)
    pin = f"{sort}: {owner.pin}" if sort else "commit: <40 digits>"
    named = "" if sort else f"with the full commit that {owner.pin} stands for, all 40 digits, "
    return f"""
{target} is a target of {owner.name}, a git repository of its own: {owner.url} at {owner.pin}
its submodules: {told}
leave it out of --targets, and upstream's wheel has it; or add it to the recipe, {named}then ./build.py lock:
sources:
  {owner.name}: {{git: "{owner.url}", {pin}{f", submodules: [{inner}]" if inner else ""}}}
wheels:
  {options.wheel}:
    nested: {{{owner.name}: [{target}]}}"""


def kind(pin: str) -> str:
    """``commit`` or ``tag``, as a recipe's source names a pin; empty for one that it does not take."""
    return "commit" if FULL.fullmatch(pin) else "tag" if RELEASE.fullmatch(pin) else ""


def left_out(compiled: list[str], nested: list[Nested], options: argparse.Namespace) -> dict[str, str]:
    """What of the project is not compiled here, each with the reason, when all that can be is."""
    handed = {name for name, _, _ in options.nested}
    told: dict[str, str] = {}
    for one in nested:
        why = f"not compiled by CMake for {options.arch}" if one.name in handed else "not handed in"
        told |= {
            target: f"of {one.name}, {why}: upstream's wheel has what there is"
            for target in one.targets
            if target not in compiled
        }
    rust = sorted(path.parent.name for path in options.source.glob("*/Cargo.toml"))
    return told | dict.fromkeys(rust, "Rust, no target of CMake's: from upstream's wheel")
