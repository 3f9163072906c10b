"""A recipe's own index for some projects: they come from there alone, and nothing else is asked there; uv for real.

Two servers: ``main`` is what pip's settings name, ``vendor`` what the recipe names for torch. Each has a newer release
of the other's project, so that whoever asked the wrong one would be seen in the lock, and in the servers' logs.
"""

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gb10.core.document import parse_document
from gb10.core.store import Store
from gb10.errors import FetchError, Gb10Error, UsageError
from gb10.image.lock.kept_files import OwnIndex
from gb10.image.lock.relock import lock_sdists, lock_wheels
from gb10.image.lock.resolver import MISFIT, Resolver
from gb10.image.plan.values import artifacts
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import LockedWheel, LockedWheels
from gb10.sources.index.client import Index, fetch_all, open_index_session

pytestmark = pytest.mark.integration

RECIPE = """\
engine: serving
version: "1"
repository: gb10/small
python: "3.13"
cuda: "13.0"
base: {suite: trixie, packages: {image: []}}
requirements: [serving==1, torch==2.9.1]
constraints: [torch<3]
tools: [helper]
indexes:
  vendor: {url: "URL", packages: [torch]}
layers: [{name: all, rest: true}]
workdir: /
"""
NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Served:
    """A simple index of wheels made here; ``asked`` are the projects it was asked for."""

    folder: Path
    url: str
    asked: set[str] = field(default_factory=set)

    def add(self, name: str, version: str, *requires: str) -> Path:
        path = self.folder / name / f"{name}-{version}-py3-none-any.whl"
        path.parent.mkdir(exist_ok=True)
        told = "".join(f"Requires-Dist: {text}\n" for text in requires)
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{told}")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in path.parent.glob("*.whl")}
        links = (f'<a href="{file}#sha256={sha256}">{file}</a>' for file, sha256 in files.items())
        (path.parent / "index.html").write_text("\n".join(links), encoding="utf-8")
        return path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[dict[str, Served]]:
    found: dict[str, Served] = {}
    servers = []
    for name in ("main", "vendor"):
        asked: set[str] = set()

        class Handler(SimpleHTTPRequestHandler):
            seen = asked

            def log_message(self, *_: object) -> None:
                self.seen.add(self.path.strip("/").split("/")[0])

        (tmp_path / name).mkdir()
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path / name))))
        threading.Thread(target=servers[-1].serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{servers[-1].server_port}"
        found[name] = Served(tmp_path / name, url, asked)
    main, vendor = found["main"], found["vendor"]
    main.add("serving", "1", "torch==2.9.1", "helper")
    for version in ("2.9.1", "2.9.2"):
        main.add("torch", version)
    main.add("helper", "1")
    vendor.add("torch", "2.9.1+cu130", "helper")
    vendor.add("helper", "99")
    yield found
    for server in servers:
        server.shutdown()
        server.server_close()


def recipe_for(url: str, old: str = "", new: str = "") -> Recipe:
    text = RECIPE.replace("URL", url)
    assert old in text
    return parse_document(text.replace(old, new, 1), Recipe, where="small.yaml", what="image recipe")


def env_of(url: str) -> dict[str, str]:
    return {"PIP_INDEX_URL": url, "PIP_CONFIG_FILE": "/dev/null", "PATH": "/usr/bin:/bin"}


def locked(tmp_path: Path, served: dict[str, Served], recipe: Recipe, **more: str) -> LockedWheels:
    env = env_of(served["main"].url) | more
    resolver = Resolver(Store(tmp_path / "store"), env, served["main"].url, recipe)
    return lock_wheels(resolver, open_index_session(env), None, ())


def of(wheels: LockedWheels, name: str) -> LockedWheel:
    return next(wheel for wheel in wheels.image["arm64"] if wheel.name == name)


def fetched(tmp_path: Path, main: str, recipe: Recipe, *wheels: LockedWheel) -> dict[str, Path]:
    return fetch_all(artifacts(recipe, wheels), Store(tmp_path / "fetched"), env_of(main))


def test_a_named_project_comes_from_its_index_alone_and_nothing_else_does(
    tmp_path: Path, served: dict[str, Served]
) -> None:
    main, vendor = served["main"], served["vendor"]
    recipe = recipe_for(vendor.url)
    wheels = locked(tmp_path, served, recipe)
    for image in wheels.image.values():
        assert {wheel.name: wheel.version for wheel in image} == {"serving": "1", "torch": "2.9.1+cu130", "helper": "1"}
    assert {wheel.version for tools in wheels.tools.values() for wheel in tools} == {"1"}
    assert of(wheels, "torch").cuda == "13.0"
    files = fetched(tmp_path, main.url, recipe, *wheels.image["arm64"])
    assert files[of(wheels, "torch").sha256].read_bytes() == next((vendor.folder / "torch").glob("*.whl")).read_bytes()
    assert (main.asked, vendor.asked) == ({"serving", "helper"}, {"torch"})


def test_without_an_index_of_its_own_torch_comes_from_the_main_one(tmp_path: Path, served: dict[str, Served]) -> None:
    recipe = recipe_for(
        served["vendor"].url,
        RECIPE[RECIPE.index("indexes:") : RECIPE.index("layers:")].replace("URL", served["vendor"].url),
    )
    assert (of(locked(tmp_path, served, recipe), "torch").version, served["vendor"].asked) == ("2.9.1", set())
    torch = of(locked(tmp_path, served, recipe), "torch")
    assert torch.cuda == "none"
    served["main"].add("nvidia-cuda-runtime".replace("-", "_"), "13.0.96")
    (served["main"].folder / "nvidia_cuda_runtime").rename(served["main"].folder / "nvidia-cuda-runtime")
    served["main"].add("torch", "2.9.1", "nvidia-cuda-runtime==13.0.96")
    assert of(locked(tmp_path / "again", served, recipe), "torch").cuda == "13.0"


def test_a_file_that_is_not_the_locked_one_is_refused(tmp_path: Path, served: dict[str, Served]) -> None:
    recipe = recipe_for(served["vendor"].url)
    torch = of(locked(tmp_path, served, recipe), "torch")
    path = next((served["vendor"].folder / "torch").glob("*.whl"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(FetchError, match="is not the file that was locked"):
        fetched(tmp_path, served["main"].url, recipe, torch)
    assert not list((tmp_path / "fetched").rglob("*.whl"))


def test_no_other_index_stands_in_for_a_named_one(tmp_path: Path, served: dict[str, Served]) -> None:
    """The main index has the very file; the named one has it no more."""
    main, vendor = served["main"], served["vendor"]
    recipe = recipe_for(vendor.url)
    torch = of(locked(tmp_path, served, recipe), "torch")
    path = next((vendor.folder / "torch").glob("*.whl"))
    path.rename(main.folder / "torch" / path.name)
    main.add("torch", "1")
    (vendor.folder / "torch/index.html").write_text("", encoding="utf-8")
    main.asked.clear()
    with pytest.raises(FetchError, match=r"is not on the index that the recipe names for torch") as caught:
        fetched(tmp_path, main.url, recipe, torch)
    assert f"looked at {vendor.url}" in str(caught.value)
    assert not main.asked


def test_a_withdrawn_release_is_refused_unless_the_recipe_says_why(tmp_path: Path, served: dict[str, Served]) -> None:
    """uv takes it, with a warning, where it is the only one that is asked for."""
    page = served["main"].folder / "serving/index.html"
    page.write_text(page.read_text(encoding="utf-8").replace("<a ", '<a data-yanked="it loses data" '), "utf-8")
    recipe = recipe_for(served["vendor"].url)
    with pytest.raises(UsageError, match=r"serving 1 was yanked by its publishers") as caught:
        locked(tmp_path, served, recipe, FORCE_COLOR="1", CLICOLOR_FORCE="1")
    assert caught.value.where == "reason: it loses data"
    assert caught.value.hint
    assert "overrides: [{requirement: serving==1, why: …}]" in caught.value.hint
    why = "overrides: [{requirement: serving==1, why: measured with it}]\nlayers:"
    assert of(locked(tmp_path, served, recipe_for(served["vendor"].url, "layers:", why)), "serving").version == "1"


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (
            "torch==2.8]",
            "all versions of serving depend on torch==2.9.1 and the-recipe depends on serving==1; "
            "and the-recipe depends on torch==2.8",
        ),
        ("torch==2.9.1, helper==7]", "there is no version of helper==7 and the-recipe depends on helper==7"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    tmp_path: Path, served: dict[str, Served], wanted: str, sentence: str
) -> None:
    with pytest.raises(UsageError, match=MISFIT) as caught:
        locked(tmp_path, served, recipe_for(served["vendor"].url, "torch==2.9.1]", wanted))
    words = caught.value.message.replace("you require", "the-recipe depends on")  # of those without an index
    assert words == f"{MISFIT} on aarch64-manylinux_2_39: {sentence}"
    assert caught.value.where is None


def _refused(tmp_path: Path, served: dict[str, Served], recipe: Recipe) -> str:
    with pytest.raises(Gb10Error) as caught:
        locked(tmp_path, served, recipe)
    assert caught.value.code == FetchError.code
    return str(caught.value)


@pytest.mark.slow
def test_an_index_that_cannot_be_asked_is_named(tmp_path: Path, served: dict[str, Served]) -> None:
    text = _refused(tmp_path, served, recipe_for(NOWHERE))
    assert "error: the index vendor of the recipe: cannot read the package index at 127.0.0.1" in text
    assert f"  {NOWHERE}/torch/" in text
    assert "hint: torch can come only from vendor" in text
    recipe = recipe_for(served["vendor"].url)
    torch = of(locked(tmp_path, served, recipe), "torch")
    with pytest.raises(FetchError, match=r"cannot read the package index at 127\.0\.0\.1") as caught:
        fetched(tmp_path, served["main"].url, recipe_for(NOWHERE), torch)
    assert caught.value.where == f"{NOWHERE}/torch/"


def test_an_index_without_the_project_is_named(tmp_path: Path, served: dict[str, Served]) -> None:
    served["main"].add("other", "1")
    recipe = recipe_for(served["vendor"].url, "torch==2.9.1]", "torch==2.9.1, other]")
    index = recipe.indexes["vendor"].model_copy(update={"packages": ("torch", "other")})
    text = _refused(tmp_path, served, recipe.model_copy(update={"indexes": {"vendor": index}}))
    assert "the index vendor of the recipe has no other" in text


def test_a_project_that_uv_took_from_elsewhere_is_refused(tmp_path: Path, served: dict[str, Served]) -> None:
    """Not required for this platform, it is only what another project asks for, and uv asks the main index."""
    recipe = recipe_for(served["vendor"].url, "torch==2.9.1]", "torch==2.9.1; platform_machine == 'x86_64']")
    text = _refused(tmp_path, served, recipe)
    assert "torch-2.9.1-py3-none-any.whl is not from the index that the recipe names for torch" in text


def test_a_source_archive_of_a_named_project_comes_from_there(tmp_path: Path, served: dict[str, Served]) -> None:
    vendor = served["vendor"]
    (vendor.folder / "torch/torch-2.9.1.tar.gz").write_bytes(b"sdist")
    sha256 = hashlib.sha256(b"sdist").hexdigest()
    (vendor.folder / "torch/index.html").write_text(f'<a href="torch-2.9.1.tar.gz#sha256={sha256}">x</a>', "utf-8")
    recipe = recipe_for(vendor.url, "layers:", "sources: {torch: {sdist: torch==2.9.1}}\nlayers:")
    made = lock_sdists(recipe, Index(open_index_session({}), served["main"].url), Store(tmp_path / "store"))
    assert made["torch"].sha256 == sha256
    assert not served["main"].asked


def test_two_names_of_one_content_are_both_kept_and_an_index_that_is_down_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same bytes on the pages of two commits, under two names each: four files to keep, one content."""
    page, store = tmp_path / "served/torch", Store(tmp_path / "store")
    page.mkdir(parents=True)
    names = [f"torch-1-cp312-cp312-manylinux_2_34_{machine}.whl" for machine in ("aarch64", "x86_64")]
    for name in names:
        (page / name).write_bytes(b"the same")
    (page / "index.html").write_text("".join(f'<a href="{name}">{name}</a>\n' for name in names), encoding="utf-8")
    for commit in ("one", "two"):
        (tmp_path / "served" / commit).symlink_to(".")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        session = open_index_session({})
        session.get_adapter("http://").max_retries = 0  # type: ignore[attr-defined]
        indexes = [
            OwnIndex(session, f"http://127.0.0.1:{server.server_port}/{commit}", store, forgets=True)
            for commit in ("one", "two")
        ]
        for index in indexes:
            for link in index.links("torch"):
                index.keep("torch", link)
        server.shutdown()
    capfd.readouterr()
    for index in indexes:
        assert {(link.filename, link.url[:5]) for link in index.links("torch")} == {(name, "file:") for name in names}
        assert "2 files of torch that were kept of it are all that counts" in capfd.readouterr().err
    with pytest.raises(FetchError):
        indexes[0].links("helper")
