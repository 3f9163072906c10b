"""The verbs: a table that ``--help`` prints without loading any of them."""

import difflib
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperGroup

from gb10 import __version__
from gb10.cli.typer_click import CompletionItem, lazily_checked
from gb10.cli.values import VALUED, stub
from gb10.core.installation import as_started
from gb10.errors import UsageError, exit_codes

if TYPE_CHECKING:
    from gb10.cli.typer_click import Command, Context, HelpFormatter


SECTIONS: Final = {
    "Build": {
        "image": "Build an image, prove what it holds, tag it",
        "wheels": "Compile only the wheels of an image",
        "plan": "Show every build step and which results are cached",
        "lock": "Pin every file of a recipe; no other verb writes a lock",
        "adopt": "Make a recipe of somebody's Dockerfile or patches",
        "rebuild": "Build an image again from its record, and compare",
    },
    "Look inside": {
        "explain": "Show which kernel serves which layer of a model",
        "moe": "Check, seed and tune the tiles of Triton kernels",
        "verify": "List the GPU code of a file or image, and what is wrong with it",
        "show": "Show what an image holds, or what changed between two",
        "report": "Write one HTML page about an image",
    },
    "Models": {
        "recipe": "List, check and render model recipes: how a model is served",
        "run": "Run a model recipe on this machine or on several nodes",
        "stop": "Stop a service on all of its nodes",
        "status": "Show services, their ranks and their health",
        "logs": "Print the log of a service",
        "cluster": "Check machines, and what joins them, for a model on several",
    },
    "Patches and mods": {
        "patches": "Show which release needs which patch, and maintain them",
        "mods": "List and check the mods that `image --mod` applies",
    },
    "Ship": {
        "publish": "Push a proven image to one or more registries",
        "pull": "Pull one image to several machines at once",
    },
    "Machine": {
        "engine": "Start, stop or show the container engine",
        "cache": "Show what the store keeps, make room, share wheels",
        "doctor": "Find what is wrong with a Spark, its containers and logs",
        "selftest": "Prove on this Spark what gb10 says of it, step by step",
        "bench": "Time servers, compare them, judge answers; time our kernels",
        "config": "Show the settings and where each one comes from",
    },
}
"""The one-line summary of every verb, at most 62 characters, under the heading that ``--help`` prints."""
FOLDERS: Final = dict(zip(SECTIONS, ("build", "look", "models", "patch", "ship", "machine"), strict=True))
"""The folder of the verbs under each heading."""
MODULES: Final = {verb: f"gb10.cli.{FOLDERS[title]}.{verb}" for title, verbs in SECTIONS.items() for verb in verbs}
VERBS: Final = dict(chain.from_iterable(section.items() for section in SECTIONS.values()))
CODES: Final = ", ".join(f"{code} {kind}" for code, (kind, _) in exit_codes().items())
START: Final = """gb10 builds container images for NVIDIA GB10 (DGX Spark).

  ./build.py image             build the vLLM image for GB10
  ./build.py pull REF          pull an image to this machine or to several
  ./build.py plan              show what `image` would do, and change nothing
  ./build.py verify IMAGE      list the GPU code that an image holds
  ./build.py patches status    show which release needs which patch

All verbs: ./build.py --help. One verb: ./build.py image --help."""
HELP: Final = f"""Container images for NVIDIA GB10 (DGX Spark), built from a lock and proven before they are tagged.

\b
./build.py image --engine vllm --arch 12.1f      # build the whole image
./build.py wheels --rebuild flashinfer           # compile only the kernels, even on a cache hit
./build.py plan --engine vllm                    # show what would happen
./build.py verify gb10/vllm:0.33.0-cu130-sm121f  # list the GPU code of an image

stdout has the result, stderr the progress. Completion of verbs, options and values in bash, zsh or fish:
./build.py --install-completion

Exit codes: {CODES}
"""


class Verbs(TyperGroup):
    """A group that imports a verb when it is called; for a misspelt one the error names the closest."""

    def list_commands(self, ctx: object) -> list[str]:
        """The verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: object, cmd_name: str) -> "Command | None":
        """The verb, imported now, with its summary."""
        if cmd_name not in VERBS:
            raise UsageError(f"no verb {cmd_name!r}", hint=_closest(cmd_name))
        module = importlib.import_module(MODULES[cmd_name])
        found = lazily_checked(_as_started(typer.main.get_command(module.app)))
        found.name, found.short_help = cmd_name, VERBS[cmd_name]
        return found

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """The options before the verb."""
        lazily_checked(self)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: "Context", args: list[str]) -> "tuple[str | None, Command | None, list[str]]":
        """The verb; to complete the value of a shared option, no verb is imported."""
        if ctx.resilient_parsing and args[-1] in VALUED:
            return args[0], typer.main.get_command(stub), args[1:]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: "Context", incomplete: str) -> "list[CompletionItem]":
        """The verbs that begin with a word, and options; no verb is imported to complete its name."""
        found = [CompletionItem(name, help=text) for name, text in VERBS.items() if name.startswith(incomplete)]
        return [*found, *super(TyperGroup, self).shell_complete(ctx, incomplete)]

    def get_help(self, ctx: "Context") -> str:
        """The page with the program's name in its examples."""
        return as_started(super().get_help(ctx))

    def format_commands(self, ctx: object, formatter: "HelpFormatter") -> None:
        """The table, without importing anything."""
        width = max(map(len, VERBS))
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", text) for name, text in verbs.items()])


def _as_started(command: "Command") -> "Command":
    """A verb with the program's name in the examples of its help and of its subcommands' help."""
    command.help = as_started(command.help or "")
    for subcommand in getattr(command, "commands", {}).values():
        _as_started(subcommand)
    return command


def _closest(name: str) -> str:
    if name == "help":
        return "./build.py --help lists the verbs, ./build.py VERB --help the options of one"
    close = difflib.get_close_matches(name, VERBS, n=1, cutoff=0.7)
    return f"did you mean {close[0]!r}?" if close else "./build.py --help lists the verbs"


app = typer.Typer(
    cls=Verbs,
    help=HELP,
    invoke_without_command=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(value: bool) -> None:
    if value:
        print(f"gb10 {__version__} (Python {sys.version.split()[0]})")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Without a verb, list the verbs to start with. Exit 2, so that a script with an empty verb stops."""
    if ctx.invoked_subcommand is None:
        print(as_started(START), file=sys.stderr)
        raise typer.Exit(2)


REF: Final = re.compile(r"--([a-z0-9][a-z0-9-]*)-ref(?:=(.*))?", re.DOTALL)
REBUILD: Final = re.compile(r"--rebuild-([a-z0-9][a-z0-9-]*)")


def respelled(arguments: Sequence[str]) -> list[str]:
    """The command line with ``--ref`` and ``--rebuild`` in place of the other spellings. Raises UsageError."""
    return list(_respelled(iter(arguments)))


def _release(word: str, text: str) -> str:
    if not text or text.startswith("-"):
        option = word.partition("=")[0]
        raise UsageError(f"{option} needs a release", hint=f"write {option} VERSION")
    return text


def _respelled(words: Iterator[str]) -> Iterator[str]:
    for word in words:
        if word == "--":
            yield word
            yield from words
        elif ref := REF.fullmatch(word):
            yield from ("--ref", f"{ref[1]}={_release(word, next(words, '') if ref[2] is None else ref[2])}")
        elif word == "--no-slim":
            yield from ("--slim", "none")
        elif rebuild := REBUILD.fullmatch(word):
            yield from ("--rebuild", rebuild[1])
        else:
            yield word
