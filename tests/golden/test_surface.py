"""The command line as a whole: the order and presence of options, summaries that fit, completion, docs/reference.md."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.cli import get_docs_for_click
from typer.core import TyperCommand, TyperGroup, TyperOption

from gb10.cli import main
from gb10.cli.app import HELP, MODULES, SECTIONS, VERBS, app
from gb10.cli.typer_click import Context
from gb10.core.config import SETTINGS, variable
from gb10.errors import ERRORS, exit_codes
from gb10.image.plan.catalog import ROOT

ORDER = (
    *(
        "--engine",
        "--arch",
        "--platform",
        "--patch",
        "--without-patch",
        "--source",
        "--ref",
        "--targets",
        "--kernels",
        "--for-model",
    ),
    "--served-with",
    *("--overlay", "--mod", "--mod-network", "--without", "--slim", "--recipe"),
    "of the verb",
    *("--rebuild", "--builder", "--cache-from", "--cache-to"),
    *("--dry-run", "--json", "--verbose", "--quiet"),
)
"""What to build, options of one verb alone, how to build, how to print."""
PRINTS_A_DIFF = "patches refresh"
WIDTH = 80


def commands(group: TyperGroup, path: str = "") -> Iterator[tuple[str, TyperCommand]]:
    """Every verb and subcommand that runs, by the words that a user types."""
    context = Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        words = f"{path} {name}".strip()
        if isinstance(found, TyperGroup):
            yield from commands(found, words)
        elif isinstance(found, TyperCommand):
            yield words, found


def root() -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


ALL = dict(commands(root()))


def options(command: TyperCommand) -> list[str]:
    return [max(param.opts, key=len) for param in command.params if isinstance(param, TyperOption)]


def test_the_same_options_stand_in_the_same_order() -> None:
    for words, command in ALL.items():
        places = [ORDER.index(name if name in ORDER else "of the verb") for name in options(command)]
        if not words.startswith("patches"):  # there, --source and --ref choose what is listed
            assert places == sorted(places), words
        assert places[-2:] == [ORDER.index("--verbose"), ORDER.index("--quiet")], words


def test_every_verb_prints_json_and_has_an_example() -> None:
    assert [words for words, command in ALL.items() if "--json" not in options(command)] == [PRINTS_A_DIFF]
    assert [words for words, command in ALL.items() if f"./build.py {words}" not in (command.help or "")] == []


@pytest.mark.parametrize("words", ALL)
def test_every_option_has_a_short_help_and_a_name_for_its_value(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    for param in ALL[words].params:
        text = getattr(param, "help", None) or ""
        assert 0 < len(max(text.splitlines(), key=len)) <= 90, param.opts
        assert text.endswith(".") or "…" in text, param.opts
    main([*words.split(), "--help"])
    assert not re.search(r"<(str|path|list\[str\])>", capsys.readouterr().out.partition("Options:")[2])


@pytest.mark.parametrize(
    "group", [[], *([name] for name in VERBS if any(words.startswith(f"{name} ") for words in ALL))]
)
def test_no_summary_is_cut(
    group: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    main([*group, "--help"])
    listing = re.split(r"^(?:Build|Commands):$", capsys.readouterr().out, flags=re.MULTILINE)[1]
    assert "..." not in listing
    rows = [line for line in listing.splitlines() if re.match(r"  [a-z]", line)]
    assert len(rows) == (len(VERBS) if not group else sum(words.startswith(f"{group[0]} ") for words in ALL))
    assert not re.search(r"^   ", listing, re.MULTILINE), "a summary takes two lines"


def test_every_verb_stands_under_a_heading() -> None:
    assert list(SECTIONS) == ["Build", "Look inside", "Models", "Patches and mods", "Ship", "Machine"]
    assert {words.split()[0] for words in ALL} == set(VERBS)


LINES = {
    "build.py ": ["image", "pull", "verify"],
    "build.py image --engine v": ["vllm"],
    "build.py image --arch ": ["12.1f", "12.0"],
    "build.py plan --platform ": ["linux/arm64"],
    "build.py wheels --kernels ": ["core", "moe", "all"],
    "build.py image --mod moe": ["moe-configs"],
    "build.py mods show moe": ["moe-configs"],
    "build.py patches show vllm/0001": ["vllm/0001-"],
    "build.py patches status --source f": ["flashinfer"],
}
COMPLETING = """
import importlib, os, sys
from gb10.cli import main
importlib.import_module("typer")
sys.stdout.flush()
for line in sys.argv[1:]:
    if not os.fork():
        os.environ.update({"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))})
        code = main([])
        print("\\0", *sys.modules, flush=True)
        os._exit(code)
    assert os.wait()[1] == 0, line
    print("\\0", flush=True)
"""
"""One interpreter, and a fork of it for each line: what a verb imports stays in its fork."""


@pytest.fixture(scope="module")
def completed() -> dict[str, tuple[str, set[str]]]:
    """What bash gets for each line, and the modules that were loaded for it."""
    env = {**os.environ, "_BUILD.PY_COMPLETE": "complete_bash"}
    run = subprocess.run(
        [sys.executable, "-c", COMPLETING, *LINES], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    parts = run.stdout.split("\0")
    return {line: (out, set(loaded.split())) for line, out, loaded in zip(LINES, parts[::2], parts[1::2], strict=False)}


@pytest.mark.parametrize(("line", "values"), LINES.items())
def test_a_shell_completes_verbs_and_values(
    completed: dict[str, tuple[str, set[str]]], line: str, values: list[str]
) -> None:
    out, loaded = completed[line]
    assert "gb10.cli.app" in loaded
    for value in values:
        assert value in out
    if "--" in line and "patches" not in line:
        heavy = {"gb10.image.plan.values", "gb10.image.context", "rich", "docker"}
        assert not heavy & loaded, "loaded to complete a value"
    if line.count(" ") == 1:
        assert not set(MODULES.values()) & loaded, "loaded to complete a verb"


def test_help_and_reference_name_every_exit_code() -> None:
    assert [code for code in exit_codes() if code not in (0, 130, 141)] == [error.code for error in ERRORS]
    for code, (kind, meaning) in exit_codes().items():
        assert f"{code} {kind}" in " ".join(HELP.split())
        assert meaning.endswith(".")


def test_the_reference_is_what_the_command_line_has(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    path, text = ROOT / "docs/reference.md", reference()
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "run pytest tests/golden --update-golden and read the diff"


def damage(text: str) -> list[str]:
    """Lines of help pages that an edit damaged: indented as no text is, or examples of another verb.

    Pages of groups (`mods`) may show the verbs that use what they make.
    """
    found = []
    pages = re.findall(r"^#+ `\./build\.py ?([^`]*)`\n(.*?)(?=^\*\*Usage|\Z)", text, re.MULTILINE | re.DOTALL)
    groups = {name.rpartition(" ")[0] for name, _ in pages}
    for name, page in pages:
        code = False
        for line in page.splitlines():
            code ^= line.lstrip().startswith("```")
            other = code and line.startswith("./build.py ") and not f"{line} ".startswith(f"./build.py {name} ")
            if line[:1].isspace() or (other and name not in groups):
                found.append(f"{name}: {line}")
    return found


def test_no_help_page_is_damaged() -> None:
    assert damage((ROOT / "docs/reference.md").read_text(encoding="utf-8")) == []
    lines = ["### `./build.py recipe fix`", "Mend.", "    That is.", "```console", "./build.py recipe add x", "```"]
    page = "\n".join([*lines, "**Usage**:"])
    assert damage(page) == ["recipe fix:     That is.", "recipe fix: ./build.py recipe add x"]


def reference() -> str:
    """docs/reference.md: Typer's own document of the command line, then exit codes and settings."""
    group = root()
    made = get_docs_for_click(obj=group, ctx=typer.Context(group), name="./build.py", title="Reference of `./build.py`")
    codes = [f"| {code} | {kind} | {meaning} |" for code, (kind, meaning) in exit_codes().items()]
    settings = [f"| `{variable(name)}` | `{name}` | {cell(text)} |" for name, text in SETTINGS.items()]
    parts = [
        fenced(made).strip(),
        "## Exit codes\n\n| code | kind | meaning |\n|---|---|---|\n" + "\n".join(codes),
        "## Environment variables\n\nEach one wins over its setting in `config.toml` (`./build.py config show`).\n\n"
        "| variable | setting | meaning |\n|---|---|---|\n" + "\n".join(settings),
        "In a container of our images, read by our patches:\n\n| variable | default | meaning |\n|---|---|---|\n"
        + "\n".join(f"| `{name}` | {default} | {meaning} |" for name, (default, meaning) in OF_IMAGES.items()),
        "Set by gb10 for programs that it starts, and no settings:\n\n| variable | what it holds |\n|---|---|\n"
        + "\n".join(f"| `{name}` | {meaning} |" for name, meaning in OWN.items()),
        "Also read: `DOCKER_HOST`, `DOCKER_CONTEXT`, `DOCKER_CONFIG`, `XDG_CACHE_HOME`, `XDG_CONFIG_HOME`,\n"
        "`XDG_STATE_HOME`, `NO_COLOR`, `FORCE_COLOR`, `COLUMNS`, `HF_TOKEN`, and the proxy and index variables of pip.",
    ]
    return "<!-- Made from the command line: pytest tests/golden --update-golden -->\n" + "\n\n".join(parts) + "\n"


OF_IMAGES = {
    "GB10_CUTLASS_MOE": ("1", "0 leaves FP8 experts to upstream's choice, Triton (vllm/0003)"),
    "GB10_CUTLASS_MOE_SMALL_BATCH": ("0", "1 sends batches of up to 8 tokens to the CUTLASS kernel, too (vllm/0001)"),
    "GB10_SHM_BUSY_LOOP_S": ("0.002", "seconds that a reader spins before it sleeps; 1 is upstream's (vllm/0006)"),
}


OWN = {
    "GB10_CCACHE": "ccache of a build stage",
    "GB10_GIT_PASSWORD": "the password of a git URL, for the git that is started",
    "GB10_GIT_USER": "the user of a git URL, for the git that is started",
    "GB10_LAUNCH_LOG": "where a build stage writes the time and memory of each compiler call",
    "GB10_LOAD_KEY": "`OPENAI_API_KEY`, for the load generator that is started",
    "GB10_NEWLINE": "a newline, as an argument of a build stage",
    "GB10_PROBE_ROOT": "a folder that stands for / when facts of a machine are read: for tests",
    "GB10_TARGET": "what a package's build asks of its machine, answered for the image's",
}
"""What gb10 sets for programs that it starts."""


def added(folder: str) -> str:
    """The lines that patches add."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.patch")]
    return "\n".join(line[1:] for text in texts for line in text.splitlines() if line.startswith("+"))


def texts(*names: str) -> Iterator[str]:
    """The texts of files of these kinds, of what gb10 runs: itself, its build stages, its programs and kernels."""
    for folder in ("gb10", "bootstrap", "templates", "kernels", "benches", "mods", "scripts"):
        for name in names:
            yield from (path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob(name)))


def names_in(tree: ast.AST) -> set[str]:
    """The texts of Python code that are a name of a variable, whole."""
    found = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {text for text in found if re.fullmatch(r"GB10_[A-Z0-9_]*[A-Z0-9]", text)}


def test_the_reference_names_every_variable_that_code_patches_and_kernels_read() -> None:
    patched = added("patches")
    by_patches = {*re.findall(r"[\"'](GB10_[A-Z0-9_]+)[\"']", patched)}
    assert by_patches == set(OF_IMAGES)
    read = {name for text in texts("*.py") for name in names_in(ast.parse(text))}
    shells = re.compile(r"(?:\$\{?|export )(GB10_\w+)")
    read |= {name for text in texts("*.sh", "*.j2") for name in shells.findall(text)}
    compiled = "\n".join((*texts("*.cu", "*.cuh", "*.h", "*.cpp"), patched))
    read |= {*re.findall(r"getenv\(\"(GB10_\w+)", compiled)}
    settings = {variable(name) for name in SETTINGS}
    assert read - settings - set(OF_IMAGES) == set(OWN)
    page = reference()
    for name in read | by_patches | settings:
        assert f"| `{name}` |" in page, name


def test_a_document_is_named_by_one_word_and_its_version() -> None:
    named = re.compile(r"[\"'](gb10/[a-z0-9/-]+/v\d+)[\"']")
    found = {name for path in (ROOT / "gb10").rglob("*.py") for name in named.findall(path.read_text(encoding="utf-8"))}
    assert len(found) > 20
    assert not [name for name in sorted(found) if name.count("/") != 2]


def fenced(text: str) -> str:
    """Paragraphs that Typer keeps as they are written, in fences."""
    return re.sub(r"\x08\n((?:.+\n)+)", r"```console\n\1```\n", text)


def cell(text: str) -> str:
    return text.replace("|", r"\|")
