"""The pages are true: every link and path exists, every command shown is one that the tool takes."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import typer
from typer.core import TyperGroup

from gb10.cli.app import VERBS, app, respelled
from gb10.cli.typer_click import Command, Context
from gb10.cli.verb import Subcommands
from tests.unit.project.test_layers import ORDER, WINGS

ROOT = Path(__file__).resolve().parents[3]
KINDS = ("README.md", "CONTRIBUTING.md", "kernels/README.md", "docs/*.md", "docs/decisions/*.md", "patches/*/README.md")
PAGES = sorted(page for kind in KINDS for page in ROOT.glob(kind))
GENERATED = "reference.md"
"""Made from the command line itself, with its own words for what stands in a place."""
FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
PLACEHOLDER = re.compile(r"[<>…]|NNNN|NAME|:")
CALL = re.compile(r"\./build\.py(?: .*)?$")


def name_of(path: Path) -> str:
    return os.path.relpath(path, ROOT)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def headings(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    found = re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def spans(page: Path) -> Iterator[str]:
    """What stands between backticks outside of blocks, in one line each."""
    yield from (" ".join(span.split()) for span in SPAN.findall(FENCE.sub("", text_of(page))))


def calls(page: Path) -> Iterator[list[str]]:
    """The words after ./build.py in blocks and between backticks."""
    blocks = "\n".join(FENCE.findall(text_of(page))).replace("\\\n", " ")
    for line in [*blocks.splitlines(), *spans(page)]:
        found = CALL.search(line)
        if found:
            yield shlex.split(found[0].partition(")")[0], comments=True)[1:]


def command(words: list[str]) -> tuple[str, Command | None]:
    """The verb of a call (with the one below it, of verbs that have some) and its command."""
    name, found = "./build.py", typer.main.get_command(app)
    while isinstance(found, TyperGroup) and words and not words[0].startswith("-"):
        known = words[0] in (VERBS if name == "./build.py" else found.list_commands(Context(found)))
        name = f"{name} {words[0]}"
        below = found.get_command(Context(found), words[0]) if known else None
        if below is None:
            return name, None
        found, words = below, words[1:]
    # `selftest --quick` is `selftest run --quick`
    if isinstance(found, Subcommands) and found.default and words and words[0].startswith("-"):
        return command([*name.split()[1:], found.default, *words])
    return name, found


def options(found: Command) -> set[str]:
    return {"-h", "--help"} | {spelling for parameter in found.params for spelling in parameter.opts}


def dead_links(page: Path) -> list[str]:
    found = (first or second for first, second in LINK.findall(text_of(page)))
    links = [link.partition("#") for link in found if not link.startswith("https://")]
    targets = [(page.parent / path if path else page, part) for path, _, part in links]
    gone = [name_of(path) for path, _ in targets if not path.exists()]
    return gone or [f"{name_of(path)}#{part}" for path, part in targets if part and part not in headings(path)]


def of_pages(check: Callable[[Path], list[str]], pages: Iterable[Path] = PAGES) -> dict[str, list[str]]:
    """What is wrong with each page that has something wrong."""
    found = {name_of(page): check(page) for page in pages}
    return {name: wrong for name, wrong in found.items() if wrong}


def test_links_lead_somewhere() -> None:
    assert of_pages(dead_links) == {}


def exists(path: str) -> bool:
    """Whether a path, or a pattern of paths, is in the checkout."""
    return bool([*ROOT.glob(path)]) if "*" in path else (ROOT / path).exists()


def lost_paths(page: Path) -> list[str]:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    paths = [span for span in spans(page) if span.partition("/")[0] in folders and "/" in span and " " not in span]
    return [path for path in paths if not PLACEHOLDER.search(path) and not exists(path)]


def test_paths_of_this_repository_exist() -> None:
    assert of_pages(lost_paths) == {}


def wrong_calls(page: Path) -> list[str]:
    wrong = []
    for words in calls(page):
        name, found = command(respelled(words))
        asked = {word.partition("=")[0] for word in respelled(words) if word.startswith("-")}
        if found is None or asked - options(found):
            wrong.append(" ".join([name, *sorted(asked - options(found) if found else ())]))
    return wrong


def test_commands_are_what_the_tool_takes() -> None:
    assert of_pages(wrong_calls, [page for page in PAGES if page.name != GENERATED]) == {}


def test_the_checks_of_pages_name_the_page_and_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](gone.md) `tests/gone.py` `./build.py images` `./build.py plan --motor`", encoding="utf-8")
    found = [of_pages(check, [page]) for check in (dead_links, lost_paths, wrong_calls)]
    gone = name_of(tmp_path / "gone.md")
    assert [value for one in found for value in one.values()] == [
        [gone],
        ["tests/gone.py"],
        ["./build.py images", "./build.py plan --motor"],
    ]
    assert {name for one in found for name in one} == {name_of(page)}


def test_the_check_sees_a_wrong_verb_and_a_wrong_option() -> None:
    assert command(["images"])[1] is None
    assert command(["cache", "clean"])[1] is None
    image = command(["image", "--engine", "vllm"])[1]
    assert image is not None
    assert "--engine" in options(image)
    assert "--motor" not in options(image)


def test_commands_are_found_in_blocks_and_between_backticks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`./build.py config\nshow`\n\n```console\n$ A=b ./build.py pull X \\\n    --host y  # z\n```\n",
        encoding="utf-8",
    )
    assert [*calls(page)] == [["pull", "X", "--host", "y"], ["config", "show"]]


def test_every_option_in_a_table_of_options_is_one() -> None:
    known = {spelling for verb in VERBS for spelling in every_option(command([verb])[1])}
    rows = re.findall(r"^\| (`--[^|]*) \|", "".join(text_of(ROOT / f"docs/{name}.md") for name in TABLES), re.MULTILINE)
    named = {option for row in rows for option in re.findall(r"`(--[a-z-]+)", row)}
    assert len(named) > 15
    assert sorted(named - known) == []


TABLES = ("build", "kernels", "patches")


def every_option(found: Command | None) -> set[str]:
    names = found.list_commands(Context(found)) if isinstance(found, TyperGroup) else []
    below = [found.get_command(Context(found), name) for name in names] if isinstance(found, TyperGroup) else []
    return set[str]().union(*(options(one) for one in (found, *below) if one))


def test_each_wing_has_a_sentence_and_each_room_a_row_in_their_order() -> None:
    section = text_of(ROOT / "docs/design.md").partition("\n## Rooms\n")[2].partition("\n## ")[0]
    whole = {"errors", "inside", "core", "sources", "containers", "cli"}  # wings that have no rooms
    rooms = [room for room in ORDER if room not in (*whole, "__main__")]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == rooms
    assert set(re.findall(r"(?:^|\. )`(\w+)`: ", section, re.MULTILINE)) == set(WINGS)


def test_readme_and_design_stay_short() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) <= 150
    assert len(text_of(ROOT / "docs/design.md").split()) <= 1800
