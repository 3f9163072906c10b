"""``verify``: list the GPU code of a file, a wheel, a directory or an image."""

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.common import AllowUncheckedOption, JsonOption, print_json, reported, verb_app, with_context
from gb10.cli.values import ArchOption, completer, fits
from gb10.containers.reference import is_reference
from gb10.core.checked import counted, documents_of, looked_at, refuse_unchecked, rows_of
from gb10.core.printing import printable
from gb10.core.reporter import NORMAL, terminal
from gb10.errors import EmptySelectionError, UsageError
from gb10.image.build.inspect import facts_of, inspect_image, try_imports
from gb10.image.context import Context
from gb10.image.proof.arch_match import judge, parse_fits
from gb10.image.proof.check import DGX_OS, UNREADABLE, Subject, Target
from gb10.image.proof.checking import all_checks, findings, of_severity, refuse
from gb10.image.proof.left_out import LIMITS, PARTS, left_out
from gb10.image.proof.reading import read_manifests, read_markers, scan_path
from gb10.image.proof.report import document, render_rows, render_summary, render_table
from gb10.image.proof.wheel_claims import SITE
from gb10.image.recipe.arch import Arch, parse_arch

app = verb_app(
    f"""List the GPU code of every binary, what a GPU of the arch does with it, and what is wrong in an image.

\b
./build.py verify wheels/some.whl                      # a wheel, a .so, a cubin or a directory
./build.py verify gb10/vllm:0.33.0-cu130-sm121f        # an image of the container engine
./build.py verify IMAGE --fit nothing                  # only the binaries that a launch would fail on
./build.py verify vllm.whl --claim --arch 12.1a        # exit 9 unless every binary holds SASS for sm_121a
./build.py verify vllm.whl --only --arch 12.1a         # ... and no code for another arch
./build.py verify IMAGE --imports                      # ... and import its packages, by qemu on x86
./build.py verify --checks                             # what is checked, and when it fails

\b
native      SASS of this capability
family      SASS of the family: 120f on 12.1
compatible  SASS of an earlier minor version: 120 on 12.1
ptx         PTX; the driver compiles it on first use
nothing     code for other GPUs only; a launch fails

A library with code for 121f and 120 passes --claim for 12.1f and fails --only. If the wheel's manifest declares a
module, that declaration counts instead: two FlashInfer modules are for 12.0f and 12.1a on purpose.

It looks at these parts. One that it had to leave out is a row with its reason; then the exit code is 13 where nothing
is wrong.

\b
{looked_at(PARTS)}

A virtual environment, or a folder of Python packages, is read as an image's are. Limits: {"; ".join(LIMITS)}.

Of an image, ours or not, every check of --checks is made: symbols that no library has, two releases of one package,
a torch without CUDA, changed patches, secrets. The exit code is 9 when one fails; what is only a note is printed.
`show A B` compares two images.

The exit code is also 9 for a damaged file, and for a cubin of another arch than its fatbin entry names. With --json
the document lists the problems; the exit code is the same.
"""
)


VERSION = re.compile(r"\d{1,2}\.\d{1,3}")
FILES = (".whl", ".so", ".cubin", ".fatbin")
"""Endings of file names; no image name has one."""


def _list_checks(wanted: bool) -> None:
    if wanted:
        for check in all_checks():
            when = "fails when" if check.severity == "error" else "a note when"
            print(f"{check.name}\n  reads {check.reads}\n  {when} {check.fails}")
        raise typer.Exit


ClaimOption = Annotated[
    bool, typer.Option("--claim", help="Exit 9 unless every binary with GPU code holds SASS of the arch.")
]
OnlyOption = Annotated[
    bool, typer.Option("--only", help="Like --claim, and exit 9 if one holds code for another arch, too.")
]
ImportsOption = Annotated[
    bool,
    typer.Option("--imports", help="Import the packages of an image, each for at most 10 minutes. On x86 by qemu."),
]
PythonOption = Annotated[
    str | None,
    typer.Option("--python", metavar="VERSION", help="The Python of a wheel or a folder: 3.13. Default: its own."),
]
GlibcOption = Annotated[
    str | None,
    typer.Option("--glibc", metavar="VERSION", help="The glibc of the target. Default: 2.39, that of DGX OS 7."),
]
ChecksOption = Annotated[
    bool, typer.Option("--checks", callback=_list_checks, is_eager=True, help="List the checks and exit.")
]
FitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fit",
        metavar="FIT",
        autocompletion=completer(fits),
        help="List only binaries with this best fit: native, …, nothing. Repeatable.",
    ),
]


@app.command(help=app.info.help)
@with_context
def verify(
    *,
    ctx: Context,
    target: Annotated[
        str, typer.Argument(metavar="PATH|IMAGE", help="A file, a directory, or an image of the container engine.")
    ],
    arch: ArchOption = "12.1f",
    claim: ClaimOption = False,
    only: OnlyOption = False,
    imports: ImportsOption = False,
    checks: ChecksOption = False,
    fit: FitOption = None,
    python: PythonOption = None,
    glibc: GlibcOption = None,
    allow_unchecked: AllowUncheckedOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the GPU code of a file, a wheel, a directory or an image."""
    wanted, shown = parse_arch(arch), parse_fits(fit or ())
    claims = {"--only" if only else "--claim": wanted} if claim or only else {}
    subject = _subject(ctx, target, claims, _target(python, glibc), imports=imports)
    unchecked = tuple(left_out(Path(target), subject)) if subject.target else ()
    found = findings(replace(subject, only=wanted if only else None, arch=wanted, allowed=ctx.catalog.allowances))
    verdict = judge(subject.scan, wanted)
    if as_json:
        left = {"unchecked": documents_of(unchecked), "limits": list(LIMITS)}
        print_json(document(verdict, found, shown) | left)
    else:
        if ctx.reporter.verbosity < NORMAL:
            print(render_summary(verdict))
        elif sys.stdout.isatty():
            terminal(ctx.env, stderr=False).print(render_table(verdict, shown))
        else:
            print("\n".join((*render_rows(verdict, shown), str(render_summary(verdict)))))
        for _, problem in of_severity(found, "note"):
            print(f"note: {printable(problem.file)}: {printable(problem.found)}")
        for line in rows_of(unchecked):
            print(line)
        ctx.reporter.say(f"{len(subject.scan.binaries)} files{counted(unchecked)}; limits: {'; '.join(LIMITS)}")
    with reported(as_json):
        refuse(found)
        if not subject.scan.binaries:
            raise EmptySelectionError(f"{target} has no ELF, fatbin or cubin", hint="name what holds the GPU code")
        refuse_unchecked(unchecked, allowed=allow_unchecked)


def _target(python: str | None, glibc: str | None) -> Target | None:
    """Where a wheel or a folder is to run; None where nothing is named. Raises UsageError."""
    for option, value in (("--python", python), ("--glibc", glibc)):
        if value is not None and VERSION.fullmatch(value) is None:
            raise UsageError(f"{option} {value[:40]!r} is no version", hint="write it as 3.13, and a glibc as 2.39")
    if python is None and glibc is None:
        return None
    return Target(python=int(python.split(".")[1]) if python else None, glibc=glibc or DGX_OS)


def _subject(ctx: Context, target: str, claims: Mapping[str, Arch], wanted: Target | None, *, imports: bool) -> Subject:
    """The scan of a path or an image, its declarations and the claims to check. Raises UsageError, VerifyError."""
    path = Path(target)
    if not _is_path(path, target):
        if wanted is not None:
            raise UsageError("--python and --glibc are for a wheel or a folder", hint="an image has its own")
        one = inspect_image(ctx, target)
        facts = facts_of(ctx, one)
        if imports:
            facts = replace(facts, imported=try_imports(ctx, one))
        return Subject(scan=one.found.scan, linked=one.found.linked, image=facts, claims=claims)
    if imports:
        raise UsageError("--imports is for an image", where=target, hint="name an image of the container engine")
    scan, manifests = scan_path(path), read_manifests(path)
    if path.is_file() and (shut := next((one for one in scan.binaries if one.kind == UNREADABLE), None)):
        raise UsageError(f"{target} cannot be opened", where=shut.error, hint="name what holds the GPU code")
    markers = read_markers(path) if path.is_dir() else {}
    marked = {name: parse_arch(text) for name, text in markers.items()}
    wanted = wanted or Target()
    if wanted.python is None and (installed := SITE.fullmatch(str(path.resolve()))):
        wanted = replace(wanted, python=int(installed[1]))
    return Subject(scan=scan, manifests=manifests, claims={**marked, **claims}, target=wanted)


def _is_path(path: Path, target: str) -> bool:
    """Whether a target is a path, not an image; raises UsageError for a broken link."""
    try:
        if path.is_symlink() and not path.exists():
            raise UsageError(
                f"{path} is a broken link", where=f"to {path.readlink()}", hint="build it again, or remove the link"
            )
        return path.exists() or target.endswith(FILES) or not is_reference(target)
    except (OSError, ValueError) as error:  # longer than any path, a loop of links
        raise UsageError(f"no file or directory {target[:100]!r}", where=str(error)[:200]) from error
