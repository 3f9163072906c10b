"""The verbs: a table that ``--help`` prints without loading any of them."""

import difflib
import importlib
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperGroup

from gb10 import __version__
from gb10.errors import UsageError

if TYPE_CHECKING:
    from typer._click.core import Command
    from typer._click.formatting import HelpFormatter

VERBS: Final = {
    "image": "Build a proven image: image --engine vllm --arch 12.1f",
    "wheels": "Compile the wheels only: wheels --rebuild flashinfer",
    "plan": "Show every step, its key, and whether its result is already there",
    "lock": "Resolve a recipe into its lock (the only verb that writes one)",
    "patches": "Hold the patches against any release: patches status",
    "mods": "Look at the mods that image --mod bakes in: mods list",
    "publish": "Push a proven image: publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm",
    "pull": "Pull one image to several machines: pull REF --host user@spark-1 --host user@spark-2",
    "verify": "List the GPU code of a .so, a wheel, a directory or an image",
    "bench": "Check and time our kernels on this machine's GPU: bench gemm",
    "cache": "What the store keeps and why, and making room: cache gc --keep 50GB",
    "engine": "Start, stop or look at the container engine",
    "config": "Show the settings and where each one came from",
}
HELP: Final = """Container images for NVIDIA GB10 (DGX Spark), built from a lock and proven before they are tagged.

\b
./build.py image --engine vllm --arch 12.1f      the whole image
./build.py wheels --rebuild flashinfer           only the kernels, really rebuilt
./build.py plan --engine vllm                    what would happen, without doing it
./build.py verify gb10/vllm:0.33.0-cu130-sm121f  what an image really holds

Results go to stdout, talk to stderr. Exit codes: 0 ok, 1 bug, 2 usage, 3 nothing selected, 4 lock stale,
5 fetch, 6 patch, 7 container engine, 8 build, 9 verify, 10 publish, 130 interrupted.
"""


class Verbs(TyperGroup):
    """A group that imports a verb when it is called; a misspelt one is answered with the closest."""

    def list_commands(self, ctx: object) -> list[str]:
        """The verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: object, cmd_name: str) -> "Command | None":
        """The verb, imported now; its help line is the table's."""
        if cmd_name not in VERBS:
            close = difflib.get_close_matches(cmd_name, VERBS, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]!r}?" if close else "./build.py --help lists the verbs"
            raise UsageError(f"no verb {cmd_name!r}", hint=hint)
        module = importlib.import_module(f"gb10.cli.{cmd_name}")
        return typer.main.get_command(module.app)

    def format_commands(self, ctx: object, formatter: "HelpFormatter") -> None:
        """The table, without importing anything."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


app = typer.Typer(
    cls=Verbs,
    help=HELP,
    no_args_is_help=True,
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
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the tool itself; the verbs do the work."""
