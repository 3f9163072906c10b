"""Options that a shell completes, and their values; imports little, so that completion is quick."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import typer

from gb10.core.installation import ROOT
from gb10.errors import UsageError
from gb10.image.recipe.arch import PLATFORMS

OPTIONAL: Final = re.compile(r"^  - name: (\S+)\n(?:    .+\n)*?    optional: true", re.MULTILINE)


def completer(values: Callable[[], list[str]]) -> Callable[[str], list[str]]:
    """A completion function for Typer: the values that begin with the typed word."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values() if value.startswith(incomplete)]

    return complete


def fits() -> list[str]:
    """The values of ``verify --fit``, the same as in gb10.image.proof.arch_match, which imports more."""
    return ["native", "family", "compatible", "ptx", "nothing", "none", "damaged"]


def engines() -> list[str]:
    """The image recipes of the checkout."""
    return sorted(path.stem for path in (ROOT / "recipes/images").glob("*.yaml"))


def arches() -> list[str]:
    """Every arch, the one for GB10 first."""
    return [f"{capability}{suffix}" for capability in PLATFORMS for suffix in ("f", "a", "")]


def platforms() -> list[str]:
    """The image platforms."""
    return sorted(PLATFORMS.values())


def kernel_sets() -> list[str]:
    """FlashInfer's kernel sets of the checkout."""
    return sorted(path.stem.removeprefix("flashinfer-") for path in (ROOT / "recipes/kernels").glob("flashinfer-*"))


def model_recipes() -> list[str]:
    """The model recipes of the checkout."""
    return sorted(path.stem for path in (ROOT / "recipes/models").glob("*.yaml"))


def optional_layers() -> list[str]:
    """The layers that a recipe of the checkout marks as optional, read without its checks."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "recipes/images").glob("*.yaml")]
    return sorted({name for text in texts for name in OPTIONAL.findall(text)})


def mods() -> list[str]:
    """The mods of the checkout."""
    return sorted(path.parent.name for path in (ROOT / "mods").glob("*/run.sh"))


def patched_sources() -> list[str]:
    """The sources that have a series of patches."""
    return sorted(path.parent.name for path in (ROOT / "patches").glob("*/series"))


def patches() -> list[str]:
    """SOURCE/NNNN-slug of every patch."""
    found = {path.with_suffix("") for path in (ROOT / "patches").glob("*/[0-9]*")}
    return sorted(f"{path.parent.name}/{path.name}" for path in found)


def series_patches() -> list[str]:
    """SOURCE/NNNN-slug of every patch, its variants as one."""
    return sorted({name.partition("@")[0] for name in patches()})


def platform_option(words: str) -> Any:  # noqa: ANN401 - as typer.Option
    """``--platform`` with its help."""
    return typer.Option("--platform", metavar="OS/ARCH", autocompletion=completer(platforms), help=words)


EngineOption = Annotated[
    str,
    typer.Option(
        "--engine", metavar="NAME", autocompletion=completer(engines), help="Serving engine, or an image recipe file."
    ),
]
ArchOption = Annotated[
    str,
    typer.Option(
        "--arch", metavar="ARCH", autocompletion=completer(arches), help=f"GPU target: {', '.join(arches())}."
    ),
]

PlatformOption = Annotated[
    str | None, platform_option("Image platform. Default: linux/arm64 for 12.1*, linux/amd64 for 12.0*.")
]
KernelsOption = Annotated[
    str | None,
    typer.Option(
        "--kernels",
        metavar="SET",
        autocompletion=completer(kernel_sets),
        help="FlashInfer kernels to compile: core (the recipe's), moe, all or another set.\n"
        "With --from also ours: gb10-moe, or core,gb10-moe.",
    ),
]
ModOption = Annotated[
    list[str] | None,
    typer.Option(
        "--mod",
        metavar="DIR|ZIP|NAME",
        autocompletion=completer(mods),
        help="Apply this mod in a layer of its own. Repeatable; order counts.",
    ),
]

stub = typer.Typer(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
"""A verb with only these options: it completes their values, so the real verb is not imported."""


@stub.command()
def valued(
    *,
    engine: EngineOption = "",
    arch: ArchOption = "",
    platform: PlatformOption = None,
    kernels: KernelsOption = None,
    mod: ModOption = None,
) -> None:
    """Never runs."""


VALUED = ("--engine", "--arch", "--platform", "--kernels", "--mod")
WithoutOption = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="LAYER",
        autocompletion=completer(optional_layers),
        help="Leave out an optional layer of the recipe. Repeatable.",
    ),
]
WithoutPatchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--without-patch",
        metavar="SOURCE/NNNN",
        autocompletion=completer(series_patches),
        help="Leave out a patch of ours, and those that need it. Repeatable.",
    ),
]
RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE|NAME",
        autocompletion=completer(model_recipes),
        help="A recipe file, one of ours, or @REGISTRY/NAME.",
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option("--trust", help="Allow what a recipe of a registry does beside its engine: mods, hooks, rights."),
]


def engine_arguments(words: Sequence[str] | None) -> tuple[str, ...]:
    """What stands after the recipe; raises UsageError where it begins with no option, as a second recipe does."""
    if words and not words[0].startswith("-"):
        raise UsageError(
            f"{words[0]!r} is no option of the engine, and one recipe is taken",
            hint="the engine's arguments come after --: -- --OPTION VALUE. recipe render --as llama-swap takes several",
        )
    return tuple(words or ())


def override(text: str) -> tuple[str, str]:
    """The parameter and the value of ``--set KEY=VALUE``; raises UsageError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {text!r} has no value", hint="write --set KEY=VALUE")
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise UsageError(f"--set {text!a} is not UTF-8 text", hint="write the value in the terminal's UTF-8")
    return key, value
