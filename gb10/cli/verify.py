"""``verify``: list the GPU code of a file, a wheel, a directory or an image."""

from pathlib import Path
from typing import Annotated

import typer

from gb10.build.inspect import scan_image
from gb10.cli import report
from gb10.cli.common import JsonOption, QuietOption, VerboseOption, print_json, verb_app, workshop
from gb10.cli.values import ArchOption
from gb10.errors import UsageError, VerifyError
from gb10.host.talk import terminal
from gb10.proof.claims import Problem, check_claim, refuse
from gb10.proof.fit import judge
from gb10.proof.reading import read_markers, scan_path
from gb10.proof.report import document, render_table
from gb10.recipe.arch import parse_arch

app = verb_app("""List the GPU code of every binary, and what a GPU of the arch does with it.

\b
./build.py verify wheels/some.whl                      # a wheel, a .so, a cubin or a directory
./build.py verify gb10/vllm:0.33.0-cu130-sm121f        # an image of the container engine
./build.py verify vllm.whl --claim --arch 12.1a        # exit 9 unless every binary holds SASS for sm_121a

\b
native      SASS of this capability
family      SASS of the family: 120f on 12.1
compatible  SASS of an earlier minor version: 120 on 12.1
ptx         PTX; the driver compiles it on first use
nothing     code for other GPUs only; a launch fails

A damaged ELF is exit 9, too. With --json the document holds the problems; the exit code is the same.
""")


@app.command(help=app.info.help)
def verify(
    *,
    target: Annotated[
        str, typer.Argument(metavar="PATH|IMAGE", help="A file, a directory, or an image of the container engine.")
    ],
    arch: ArchOption = "12.1f",
    claim: Annotated[
        bool, typer.Option("--claim", help="Exit 9 unless every binary with GPU code holds SASS of the arch.")
    ] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """List the GPU code of a file, a wheel, a directory or an image."""
    shop = workshop(verbose, quiet)
    wanted = parse_arch(arch)
    path = Path(target)
    if path.is_symlink() and not path.exists():
        raise UsageError(
            f"{path} is a broken link", where=f"to {path.readlink()}", hint="build it again, or remove the link"
        )
    scan = scan_path(path) if path.exists() else scan_image(shop, target)
    markers = read_markers(path) if path.is_dir() else {}
    problems = [
        problem for name, marked in sorted(markers.items()) for problem in check_claim(parse_arch(marked), scan, name)
    ]
    problems += check_claim(wanted, scan, "--claim") if claim else []
    verdict = judge(scan, wanted)
    problems += [
        Problem(file=binary.path, expected="a whole ELF", found=f"damaged: {binary.error}")
        for binary in verdict.damaged
    ]
    if not as_json:
        terminal(shop.env, stderr=False).print(render_table(verdict))
        refuse(problems)
        return
    print_json(document(verdict, problems))
    try:
        refuse(problems)
    except VerifyError as error:
        raise typer.Exit(report(error, as_json=False)) from error  # the document holds the problems
