"""The recipe of an adopted Dockerfile as files: NAME.yaml, and beside it patches, overlay and mods."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.errors import UsageError
from gb10.image.adopt.adopted import Adopted, Line
from gb10.image.adopt.build_files import BuildFile

COMMIT: Final = re.compile(r"[0-9a-f]{40}")
WIDEST: Final = 160
"""Characters of a line of theirs in a comment."""
RECORD: Final = """what: Commands that {name} runs in its image, as `adopt` found them.
why: They are a part of somebody's Dockerfile that no requirement, patch or file expresses.
engines: {{vllm: ">=0", sglang: ">=0"}}
network: {network}
delete-when: the Dockerfile does not run them any more
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """Where the parts are; a part that the recipe does not have is None or empty."""

    recipe: Path
    patches: Path | None
    overlay: Path | None
    mods: tuple[Path, ...]
    network: bool

    @property
    def command(self) -> str:
        """What builds the image."""
        words = ["./build.py image --engine", str(self.recipe)]
        words += [f"--overlay {self.overlay}"] if self.overlay else []
        return " ".join([*words, *(["--mod-network"] if self.network else [])])


def places(recipe: Path, adopted: Adopted) -> Written:
    """Where the files of a recipe go: beside it, in a folder of its name. Pure."""
    folder = recipe.with_suffix("")
    mods = tuple(folder / "mods" / f"{recipe.stem}-{number}" for number, _ in enumerate(adopted.mods, 1))
    return Written(
        recipe=recipe,
        patches=folder / "patches" if adopted.patches else None,
        overlay=folder / "overlay" if adopted.overlay else None,
        mods=mods,
        network=any(mod.network for mod in adopted.mods),
    )


def check_absent(recipe: Path) -> None:
    """Raise UsageError when the recipe, or the folder beside it, is there, or has no usable name."""
    if recipe.suffix != ".yaml" or not recipe.stem:
        raise UsageError(f"{recipe} is no name of a recipe", hint="write -o NAME.yaml")
    existing = next((path for path in (recipe, recipe.with_suffix("")) if os.path.lexists(path)), None)
    if existing is not None:
        raise UsageError(f"{existing} is there already", hint="remove it, or write elsewhere: -o NAME.yaml")
    if not recipe.parent.is_dir():
        raise UsageError(f"there is no folder {recipe.parent}", hint="make it first")


def write_recipe(recipe: Path, adopted: Adopted, origin: str) -> Written:
    """Write all parts, or none: they are made beside their place and moved there. Raises UsageError."""
    check_absent(recipe)
    made = places(recipe, adopted)
    text = recipe_text(adopted, made, origin)
    try:
        with tempfile.TemporaryDirectory(dir=recipe.parent, prefix=".adopt-") as name:
            work = Path(name) / recipe.stem
            write_files({path: BuildFile("", text) for path, text in adopted.patches.items()}, work / "patches")
            write_files({path.lstrip("/"): file for path, file in adopted.overlay.items()}, work / "overlay")
            for draft, mod in zip(adopted.mods, made.mods, strict=True):
                folder = work / "mods" / mod.name
                network = "true" if draft.network else "false"
                own = {
                    "run.sh": BuildFile("", draft.script.encode(), executable=True),
                    "mod.yaml": BuildFile("", RECORD.format(name=recipe.stem, network=network).encode()),
                }
                write_files({**draft.files, **own}, folder)
            if work.is_dir():
                shutil.move(work, recipe.with_suffix(""))
        recipe.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {recipe}", where=error.strerror or str(error)) from error
    return made


def write_files(files: Mapping[str, BuildFile], folder: Path) -> None:
    """Write files by their path below a folder."""
    for path, file in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.content)
        place.chmod(0o755 if file.executable else 0o644)


def recipe_text(adopted: Adopted, made: Written, origin: str) -> str:
    """The recipe; what was not taken stands in its comments. Pure."""
    return "\n".join(_recipe_lines(adopted, made, origin)) + "\n"


def _recipe_lines(adopted: Adopted, made: Written, origin: str) -> Iterator[str]:
    yield f"# Made by `adopt` of {one_line(origin)}. Read it, then lock and build:"
    yield f"#   ./build.py lock --engine {made.recipe}"
    yield f"#   {made.command}"
    for remark in adopted.remarks:
        yield f"# {one_line(remark)}"
    yield "base:"
    yield f"  image: {_text(adopted.base)}"
    if adopted.platform:
        yield f"platform: {adopted.platform}"
    parts = {
        "requirements": adopted.requirements,
        "constraints": adopted.constraints,
        "patches": [_beside(made, made.patches)] if made.patches else [],
        "mods": [_beside(made, mod) for mod in made.mods],
    }
    for name, values in parts.items():
        if values:
            yield f"{name}:"
            yield from (f"  - {_text(value)}" for value in values)
    if adopted.env:
        yield "env:"
        yield from (f"  {name}: {_text(value)}" for name, value in adopted.env.items())
    yield from _left_out(adopted)


def _beside(made: Written, path: Path) -> str:
    """A path as the recipe names it: below the recipe's own folder."""
    return path.relative_to(made.recipe.parent).as_posix()


def _left_out(adopted: Adopted) -> Iterator[str]:
    groups = (("Not taken", ("not-taken",)), ("Not checked", ("unchecked", "unread")))
    for title, verdicts in groups:
        lines = [line for line in adopted.lines if line.verdict in verdicts]
        if lines:
            yield ""
            yield f"# {title}:"
            for line in lines:
                yield f"#   {rows_of(line)}  {one_line(text_of(line))}"
                yield f"#       {one_line(line.why)}"
    if adopted.wheels:
        yield ""
        yield "# What it compiles takes a wheel method in a recipe with sources:"
        for wheel in adopted.wheels:
            pin = wheel.ref if COMMIT.fullmatch(wheel.ref) else f"COMMIT of {wheel.ref or 'its branch'}"
            yield f"#   sources: {one_line(f'{{{wheel.name}: {{git: {wheel.url}, commit: {pin}}}}}')}"
            yield f"#   wheels: {one_line(f'{{{wheel.name}: {{method: package, source: {wheel.name}}}}}')}"


def text_of(line: Line) -> str:
    """The instruction, or the command of a RUN with its instruction before it."""
    known = line.text.upper().startswith(line.instruction)
    return line.text if known else f"{line.instruction} {line.text}"


def rows_of(line: Line) -> str:
    """``12`` or ``12-14``."""
    return str(line.first) if line.first == line.last else f"{line.first}-{line.last}"


def one_line(text: str) -> str:
    """A text of theirs on one line of a comment: printable, and not too long."""
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    flat = " ".join(plain.split())
    return flat if len(flat) <= WIDEST else f"{flat[: WIDEST - 1]}…"


def _text(value: str) -> str:
    """A value as YAML reads it back: text, whatever it looks like."""
    return json.dumps(value, ensure_ascii=False)
