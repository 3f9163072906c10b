"""``wheels --add``: an entry is read from a package's files and written into a recipe; nothing else changes."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.document import parse_document
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.lock.lockfile import lock_path
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.image_recipe import Recipe, Source, WheelBuild
from gb10.image.recipe.locked import Lock, LockedWheel, LockedWheels
from gb10.image.upgrade.added_packages import (
    FORCE,
    OURS,
    Entry,
    add_packages,
    build_tools,
    compiles_on_import,
    entry_of,
    inserted,
    missing,
    with_entries,
)
from tests.hang import no_hang
from tests.recipes import empty_lock, small_recipe
from tests.unit.image.test_upgrade_index import index_context

DRIVES = ("gb10.image.lock.relock",)  # through others: see tests/mutations.py

TEXT = (
    small_recipe(
        "sources:\n    one: {sdist: one==1.0}  # the first\n    # a comment behind it\n\n"
        "wheels:\n    one: {method: aot, source: one, kernels: few}\n",
        requirements="\n- one==1.0 # pinned\n",
    )
    + "# the end\n"
)
PYPROJECT = '[build-system]\nrequires = ["setuptools>=64", "torch", "ninja", "wheel"]\n'
SETUP = (
    "import os\nimport numpy as np\nfrom setuptools import setup\nimport torch\nimport helper\n"
    'FORCE = os.getenv("CONV_FORCE_BUILD", "FALSE") == "TRUE"\n'
)
METADATA = "Metadata-Version: 2.1\nName: conv\nVersion: 1.0\n"


class Files:
    """A source as a mapping."""

    def __init__(self, *, installed: bool = False, **files: str) -> None:
        self.files = {name.replace("__", "/").replace("_dot_", "."): text.encode() for name, text in files.items()}
        self.installed = installed

    def paths(self) -> tuple[str, ...]:
        return tuple(self.files)

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)


def tree(files: dict[str, str], *, installed: bool = False) -> Files:
    found = Files(installed=installed)
    found.files = {name: text.encode() for name, text in files.items()}
    return found


SDIST = {"setup.py": SETUP, "helper.py": "", "csrc/a.cu": "", "PKG-INFO": METADATA}


@pytest.fixture
def recipe() -> Recipe:
    return parse_document(TEXT, Recipe, where="r.yaml", what="image recipe")


def with_image(recipe: Recipe, **versions: str) -> Lock:
    wheels = tuple(
        LockedWheel(name=name, version=version, filename=f"{name}-{version}-py3-none-any.whl", sha256="0" * 64, size=1)
        for name, version in versions.items()
    )
    sets = LockedWheels(image={"arm64": wheels, "amd64": ()}, tools={"arm64": (), "amd64": ()})
    return empty_lock(recipe).model_copy(update={"wheels": sets})


def test_the_entry_is_what_the_packages_files_say(recipe: Recipe) -> None:
    found = entry_of("conv", Source(sdist="conv==1.0"), tree(SDIST), recipe, empty_lock(recipe))
    assert found.build.tools == ("setuptools", "numpy")
    assert found.build.environment == {"CONV_FORCE_BUILD": "TRUE"}
    assert found.build.jit is None


def test_what_the_project_states_is_kept_as_it_states_it(recipe: Recipe) -> None:
    files = tree({**SDIST, "pyproject.toml": PYPROJECT})
    assert build_tools(files, SETUP, recipe) == ("setuptools>=64", "wheel", "numpy")
    known = recipe.model_copy(update={"tools": ("numpy", "setuptools")})
    assert build_tools(files, SETUP, known) == ("wheel",)


def test_a_wheel_that_compiles_on_import_names_its_module(recipe: Recipe) -> None:
    loads = "from torch.utils.cpp_extension import load\n"
    files = {"conv/ext.py": loads, "conv/a.cu": "", "conv/__init__.py": "", "conv-1.0.dist-info/METADATA": METADATA}
    found = entry_of("conv", Source(wheel="conv==1.0"), tree(files, installed=True), recipe, empty_lock(recipe))
    assert (found.build.jit, found.build.tools) == ("conv.ext", ("setuptools",))
    with pytest.raises(UsageError, match="no one module") as caught:
        two = tree({**files, "conv/other.py": loads}, installed=True)
        entry_of("conv", Source(wheel="conv==1.0"), two, recipe, empty_lock(recipe))
    assert "conv/ext.py, conv/other.py" in (caught.value.where or "")


def test_a_package_without_code_to_compile_is_a_plain_wheel(recipe: Recipe) -> None:
    files = tree({"setup.py": "", "conv.py": "", "PKG-INFO": METADATA})
    with pytest.raises(UsageError, match=r"conv==1\.0 has nothing to compile"):
        entry_of("conv", Source(sdist="conv==1.0"), files, recipe, empty_lock(recipe))


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"pyproject.toml": "[build-system\n"}, "pyproject.toml cannot be read"),
        ({"pyproject.toml": "build-system = 1\n"}, "pyproject.toml cannot be read"),
        ({"pyproject.toml": '[build-system]\nrequires = ["a b c"]\n'}, "pyproject.toml cannot be read"),
        ({"setup.py": "print 'python 2'\n"}, "setup.py cannot be read"),
        ({"setup.py": "(" * 10_000}, "setup.py cannot be read"),
        ({"setup.py": "\0"}, "setup.py cannot be read"),
    ],
)
def test_files_that_cannot_be_read_are_one_error(recipe: Recipe, files: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        entry_of("conv", Source(sdist="conv==1.0"), tree({**SDIST, **files}), recipe, empty_lock(recipe))


def test_what_the_image_lacks_is_required_and_what_it_has_must_fit(recipe: Recipe) -> None:
    needs = (
        "Requires-Dist: torch>=2.6\nRequires-Dist: einops\nRequires-Dist: rich>=13; python_version >= '3.8'\n"
        "Requires-Dist: old; sys_platform == 'win32'\nRequires-Dist: pytest; extra == 'dev'\nRequires-Dist: ninja\n"
        "Provides-Extra: dev\n"
    )
    files = tree({**SDIST, "PKG-INFO": METADATA + needs})
    assert list(missing("conv==1.0", files, recipe, with_image(recipe, torch="2.14.0", einops="0.8"))) == ["rich>=13"]
    with pytest.raises(UsageError, match=r"conv==1\.0 requires torch>=2\.6, the image has torch 2\.5\.1"):
        list(missing("conv==1.0", files, recipe, with_image(recipe, torch="2.5.1")))


def entry(**words: object) -> Entry:
    build = WheelBuild.model_validate({"method": "package", "source": "conv", "tools": ("uv>=1",), **words})
    return Entry(name="conv", source=Source(sdist="conv==1.0"), build=build, requirements=("rich>=13",))


def test_only_lines_are_added_and_comments_stay(recipe: Recipe) -> None:
    made = entry(environment={"CONV_FORCE_BUILD": "TRUE"})
    text, found = with_entries(TEXT, recipe, [made], "r.yaml")
    new = [line for line in text.splitlines() if line not in TEXT.splitlines()]
    assert new == [
        "- rich>=13",
        "    conv: {sdist: conv==1.0}",
        "    conv:",
        "      method: package",
        "      source: conv",
        "      tools: [uv>=1]",
        "      environment: {CONV_FORCE_BUILD: 'TRUE'}",
    ]
    assert [line for line in text.splitlines() if line not in new] == TEXT.splitlines()
    assert found.wheels["conv"] == made.build
    assert found.sources["one"] == recipe.sources["one"]


def test_packages_that_are_added_together_share_what_they_require(recipe: Recipe) -> None:
    """One of them is what the other requires: it is compiled, and not required of the index."""
    first = entry()
    own = first.build.model_copy(update={"source": "scan"})
    other = replace(
        first, name="scan", source=Source(sdist="scan==1.0"), build=own, requirements=("conv>=1", "rich>=13", "rich<15")
    )
    for entries in ([first, other], [other, first]):
        _, found = with_entries(TEXT, recipe, entries, "r.yaml")
        assert found.requirements == ("one==1.0", "rich<15,>=13")
    newer = replace(other, requirements=("conv>=2",))
    with pytest.raises(UsageError, match=r"--add conv==1\.0: what is added with it requires conv>=2"):
        with_entries(TEXT, recipe, [first, newer], "r.yaml")


def test_two_releases_of_a_package_are_one_error(ctx: Context, path: Path) -> None:
    with pytest.raises(UsageError, match="--add names conv-two twice"):
        add_packages(ctx, path, ["conv_two==1.0", "one==1.0", "Conv.Two==2.0"])
    assert path.read_text(encoding="utf-8") == TEXT


@pytest.mark.parametrize(
    "text", ["\n" * (1 << 20), " " * (1 << 20), "getenv(" + " " * (1 << 20), "getenv(" * (1 << 17)]
)
@no_hang()
def test_long_files_are_searched_in_bounded_time(text: str) -> None:
    assert not compiles_on_import(text)
    assert not FORCE.findall(text)


def test_a_section_that_is_not_there_comes_at_the_end() -> None:
    assert inserted("a: 1", "wheels", ["b: {}"], "r") == "a: 1\n\nwheels:\n  b: {}\n"
    assert inserted("wheels:\n  - a\nb: 1\n", "wheels", ["- c"], "r") == "wheels:\n  - a\n  - c\nb: 1\n"


@pytest.mark.parametrize("text", ["wheels: {}\n", "wheels: [a]\n", "wheels: a\n", "wheels:\n"])
def test_a_section_in_one_line_is_left_alone(text: str) -> None:
    with pytest.raises(UsageError, match="written in one line"):
        inserted(text, "wheels", ["b: {}"], "r.yaml")


def test_recipes_of_gb10_are_named() -> None:
    assert sorted(path.stem for path in (ROOT / "recipes/images").glob("*.yaml")) == sorted(OURS)


@pytest.fixture
def offer(tmp_path: Path) -> Callable[[str, bytes], None]:
    """Put a file on the page of conv."""
    folder = tmp_path / "simple/conv"
    folder.mkdir(parents=True)

    def put(name: str, content: bytes) -> None:
        (folder / name).write_bytes(content)
        line = f'<a href="{name}#sha256={hashlib.sha256(content).hexdigest()}">{name}</a>\n'
        with (folder / "index.html").open("a", encoding="utf-8") as page:
            page.write(line)

    return put


def sdist(files: dict[str, str]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"conv-1.0/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return written.getvalue()


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return index_context(tmp_path)


@pytest.fixture
def path(tmp_path: Path, recipe: Recipe) -> Path:
    found = tmp_path / "my.yaml"
    found.write_text(TEXT, encoding="utf-8")
    lock_path(found).write_text(empty_lock(recipe).model_dump_json(by_alias=True), encoding="utf-8")
    return found


@pytest.mark.parametrize(
    ("pinned", "says"),
    [
        ("conv", "--add conv: give one release"),
        ("conv>=1", "--add conv>=1: give one release"),
        ("conv==one", "--add conv==one: give one release"),
        ("one==1.0", "the recipe has one already"),
        ("conv==2.0", "the index has no source of conv==2.0"),
        ("conv==2.1", "conv==2.1 has wheels for aarch64"),
        ("conv==3.0", "the package index has no conv 3.0"),
        ("cnov==1.0", "the index has no project cnov"),
    ],
)
def test_what_cannot_be_added_is_one_error_and_nothing_is_written(
    ctx: Context, path: Path, offer: Callable[[str, bytes], None], pinned: str, says: str
) -> None:
    offer("conv-1.0.tar.gz", sdist(SDIST))
    offer("conv-2.0-cp313-cp313-manylinux_2_28_x86_64.whl", b"")
    offer("conv-2.1-cp313-cp313-manylinux_2_28_aarch64.whl", b"")
    with pytest.raises(UsageError) as caught:
        add_packages(ctx, path, [pinned])
    assert says in str(caught.value)
    assert path.read_text(encoding="utf-8") == TEXT


def test_a_release_beside_the_one_that_the_image_has_is_refused(ctx: Context, path: Path, recipe: Recipe) -> None:
    lock = empty_lock(recipe)
    held = LockedWheel(filename="conv-0.9-py3-none-any.whl", sha256="0" * 64, size=1, name="conv", version="0.9")
    image = dict.fromkeys(lock.wheels.image, (held,))
    held_lock = lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": image})})
    lock_path(path).write_text(held_lock.model_dump_json(by_alias=True), encoding="utf-8")
    with pytest.raises(UsageError, match=r"the image has conv 0\.9.*a second one"):
        add_packages(ctx, path, ["conv==1.0"])


def test_the_source_archive_of_the_index_is_read(ctx: Context, path: Path, offer: Callable[[str, bytes], None]) -> None:
    """It has nothing to compile: an error that only its files can give."""
    offer("conv-1.0.tar.gz", sdist({"setup.py": "", "PKG-INFO": METADATA}))
    with pytest.raises(UsageError, match="has nothing to compile"):
        add_packages(ctx, path, ["conv==1.0"])


def test_a_recipe_of_gb10_stays_as_it_is(ctx: Context) -> None:
    with pytest.raises(UsageError, match=r"vllm\.yaml is a recipe of gb10's, which stays as it is"):
        add_packages(ctx, ROOT / "recipes/images/vllm.yaml", ["conv==1.0"])


def test_a_wheel_for_one_machine_is_no_source(ctx: Context, path: Path, offer: Callable[[str, bytes], None]) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("conv-1.0.dist-info/METADATA", METADATA)
    offer("conv-1.0-py3-none-any.whl", packed.getvalue())
    with pytest.raises(UsageError, match="has nothing to compile"):
        add_packages(ctx, path, ["conv==1.0"])
