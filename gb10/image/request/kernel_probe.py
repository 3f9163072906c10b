"""Which modules of a kernel set a release of FlashInfer can make: its source is read, no list of releases decides."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gb10.core.fetch import store_paths
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.locked_files import fetch_locked
from gb10.image.patches.release_files import open_stored
from gb10.image.patches.source_tree import Tree
from gb10.image.plan.compiles import kernel_set, set_owner
from gb10.image.plan.values import Toolkit, source_archive
from gb10.image.recipe.image_recipe import Recipe, WheelBuild
from gb10.image.recipe.kernel_sets import KernelSet, entries
from gb10.image.recipe.locked import Lock

DEEPEST: Final = 5
"""Modules that one import after the other may lead through."""
LARGEST: Final = 4 << 20
"""Bytes of a Python file of a release."""
MAKERS: Final = ("gen_jit_spec",)
"""FlashInfer's functions whose first argument is the name of a module."""
WHOLE: Final = "flashinfer.aot:gen_all_modules"
"""FlashInfer's own list, which the build stage calls with FlashInfer's own arguments."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def for_engine(ctx: Context, recipe: Recipe, toolkit: Toolkit, *, changed: bool) -> Recipe:
    """The recipe, with a whole kernel set where its own leaves out what other releases of the engine do not call.

    ``changed``: the engine is a commit or a source tree, so nobody knows what it calls. The change is printed.
    """
    wheels = dict(recipe.wheels)
    for name, build in recipe.built.items():
        kernels = kernel_set(build, toolkit) or {}
        whole = kernels.get("unasked")
        asked = not changed and recipe.version in kernels.get("asked", {}).get(recipe.engine, ())
        if (
            asked
            or not whole
            or _release(recipe, build) not in toolkit.kernel_sets[f"{build.source}-{whole}"]["flashinfer"]
        ):
            continue
        ctx.reporter.say(f"kernel set {whole}: {build.kernels} leaves out what {_releases(kernels)} do not call")
        wheels[name] = recipe.wheels[name].model_copy(update={"kernels": whole})
    return recipe.model_copy(update={"wheels": wheels})


def _releases(kernels: KernelSet) -> str:
    return " and ".join(f"{engine} {', '.join(releases)}" for engine, releases in kernels["asked"].items())


def fitting_sets(ctx: Context, recipe: Recipe, lock: Lock, toolkit: Toolkit) -> Toolkit:
    """The toolkit; sets that were not held against this release of FlashInfer have only the modules that it can make.

    The source archive is fetched for it. What is left out is printed. Raises UsageError when nothing is left,
    FetchError, PatchError.
    """
    sets = dict(toolkit.kernel_sets)
    for build in recipe.built.values():
        if build.method != "aot":
            continue
        kernels, release = kernel_set(build, toolkit) or {}, _release(recipe, build)
        if release in kernels.get("flashinfer", (release,)):
            continue
        archive = source_archive(build.source, recipe, lock)
        fetch_locked(ctx, [archive])
        tree = open_stored(ctx.store, store_paths(ctx.store, [archive])[0], archive)
        flaws = dict(flaws_of(tree, kernels))
        what = f"the kernel set {build.kernels} for FlashInfer {release}"
        if len(flaws) == len(entries(kernels)):
            why = "; ".join(flaws.values())
            raise UsageError(f"{what} would be empty", where=why, hint="choose another set: --kernels NAME")
        for entry, why in flaws.items():
            ctx.reporter.say(f"{what} is without {entry}: {why}")
        if not flaws:
            ctx.reporter.say(f"{what}: FlashInfer's source has each of its {len(entries(kernels))} modules")
        sets[f"{set_owner(build)}-{build.kernels}"] = without(tree, kernels, flaws, release)
    return replace(toolkit, kernel_sets=sets)


def _release(recipe: Recipe, build: WheelBuild) -> str:
    return (recipe.sources[build.source].sdist or "").partition("==")[2]


def without(tree: Tree, kernels: KernelSet, flaws: Mapping[str, str], release: str) -> KernelSet:
    """The set for one release, without some entries, and without factories to pass over that the release lacks."""
    parts = {
        part: [entry for entry in kernels.get(part, ()) if entry["name"] not in flaws] for part in ("module", "group")
    }
    passed = {factory: why for factory, why in kernels.get("without", {}).items() if find_function(tree, factory)}
    return {
        **kernels,
        **{part: own for part, own in parts.items() if part in kernels},
        **({"without": passed} if "without" in kernels else {}),
        "flashinfer": [release],
    }


def flaws_of(tree: Tree, kernels: KernelSet) -> Iterator[tuple[str, str]]:
    """The entries of a set that this source cannot make, each with the reason."""
    for part in ("module", "group"):
        for entry in kernels.get(part, ()):
            why = _flaw(tree, entry, group=part == "group")
            if why:
                yield entry["name"], why


def _flaw(tree: Tree, entry: Mapping[str, Any], *, group: bool) -> str:
    """Why an entry cannot be made; empty when nothing speaks against it."""
    place, _, name = entry["factory"].partition(":")
    function = find_function(tree, entry["factory"])
    if function is None:
        return f"{place} has no {name}"
    count, own = len(entry.get("arguments", ())), function.args
    most = len(own.posonlyargs) + len(own.args)
    least = most - len(own.defaults)
    if entry["factory"] != WHOLE and (count < least or (count > most and not own.vararg)):
        return f"{name} takes {least}{f' to {most}' if most > least else ''} arguments, the set gives {count}"
    made = _names(function)
    if not group and len(made) == 1 and entry["name"] not in made:
        return f"{name} makes {made.pop()}"
    return ""


def _names(function: Function) -> set[str]:
    """The names of modules that a function spells out. A name that is composed at run time is not among them."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    own = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in MAKERS and call.args]
    first = [call.args[0] for call in own]
    plain = {node.value for node in first if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return plain if len(first) == len([node for node in first if isinstance(node, ast.Constant)]) else set()


def find_function(tree: Tree, factory: str) -> Function | None:
    """A function of a source tree by ``package.module:function``, also where the module only imports it; else None."""
    place, _, name = factory.partition(":")
    return _find(tree, place.split("."), name, DEEPEST)


def _find(tree: Tree, module: Sequence[str], name: str, depth: int) -> Function | None:
    path = "/".join(module)
    for file, package in ((f"{path}.py", list(module[:-1])), (f"{path}/__init__.py", list(module))):
        content = tree.read(file)
        if content is None or len(content) > LARGEST:
            continue
        try:
            body = ast.parse(content).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in body:
            if isinstance(node, Function) and node.name == name:
                return node
        for node in body if depth else ():
            if isinstance(node, ast.ImportFrom) and (alias := _alias(node, name)):
                above = list(package[: len(package) - node.level + 1]) if node.level else []
                found = _find(tree, [*above, *(node.module.split(".") if node.module else ())], alias, depth - 1)
                if found:
                    return found
    return None


def _alias(node: ast.ImportFrom, name: str) -> str:
    """What a name is called where it is imported from; empty when the import does not bring it."""
    own = next((alias.name for alias in node.names if (alias.asname or alias.name) == name), "")
    return own or (name if any(alias.name == "*" for alias in node.names) else "")
