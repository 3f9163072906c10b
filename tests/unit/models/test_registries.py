"""Registries of recipes without a network: folders and files are added, pinned, trusted, moved and bounded."""

import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.containers.images import ImageInfo
from gb10.core.folder_files import ModFile
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.request.from_model_recipe import with_recipe
from gb10.image.request.planning import Request
from gb10.image.request.recipe_mods import MODS, load_file
from gb10.models.registries import content
from gb10.models.registries.content import Content, content_of_folder, content_of_tar
from gb10.models.registries.origin import check_ref, check_registry_name, origin_of
from gb10.models.registries.recipe_file import RecipeFile, find_recipe
from gb10.models.registries.registry import read_registries
from gb10.models.registries.updating import changes_of, parts_of
from gb10.models.render.rendered import RenderRequest
from gb10.serving.run.prepare_service import (
    KEY,
    TITLE,
    VERSION,
    PreparedService,
    ServiceRequest,
    mods_to_run,
    prepare_elsewhere,
)

DRIVES = ("gb10.image.request.model_sizes",)  # through others: see tests/mutations.py

RECIPE = "model: org/m\ncontainer: vllm/vllm-openai:v0.33.0\ncommand: vllm serve org/m --gpu-memory-utilization 0.8\n"
HOOK = f"{RECIPE}pre_exec: [apt-get install x]\n"


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody's folder of recipes, and settings and a store that are empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    root = tmp_path / "theirs"
    write(root, {"recipes/plain.yaml": RECIPE, "recipes/deep/hook.yaml": HOOK, "README.md": "x"})
    write(root, {"mods/fix/run.sh": "#!/bin/bash\n", "mods/fix/notes.yaml": "model: no recipe\n"})
    write(root, {"recipes/mod.yaml": f"{RECIPE}mods: [mods/fix]\n", ".github/ci.yml": "model: none\n"})
    return root


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["recipe", *words]) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def asked(name: str, *, trust: bool = False) -> Request:
    """What ``image --recipe`` asks for."""
    return with_recipe(Request(engine="vllm", arch="12.1f", kernels="core"), name, lambda _: None, trust=trust)


def test_a_folder_is_added_pinned_and_listed(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "registry @theirs:" in printed(capsys, "add", str(theirs))
    (one,) = read_registries(os.environ)
    assert (one.name, one.kind, one.source, len(one.pin), one.trusted) == ("theirs", "folder", str(theirs), 64, False)
    found = json.loads(printed(capsys, "list", "@theirs", "--json"))
    assert [row["id"] for row in found["recipes"]] == ["@theirs/hook", "@theirs/mod", "@theirs/plain"]
    assert found["recipes"][0]["file"] == "@theirs/recipes/deep/hook.yaml"
    assert "@theirs/plain" in printed(capsys, "list")


def test_what_the_folder_holds_later_counts_after_an_update(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "add", str(theirs), "--trust")
    assert "is unchanged at" in printed(capsys, "add", "--update")
    write(theirs, {"recipes/plain.yaml": HOOK, "recipes/new.yaml": RECIPE, "mods/fix/run.sh": "#!/bin/bash\nid\n"})
    (theirs / "recipes/deep/hook.yaml").unlink()
    assert "pre_exec" not in printed(capsys, "show", "@theirs/plain")
    before = read_registries(os.environ)
    assert "4 changes" in printed(capsys, "add", "--update", "@theirs", "--dry-run")
    assert read_registries(os.environ) == before
    assert main(["recipe", "add", "--update", "@theirs"]) == 0
    out, err = capsys.readouterr()
    assert "+ recipe recipes/new.yaml" in out
    assert "- recipe recipes/deep/hook.yaml" in out
    assert "~ recipe recipes/plain.yaml\n      now: pre_exec runs as root in each container" in out
    assert "~ mod mods/fix" in out
    assert "@theirs is not trusted any more" in err
    assert not read_registries(os.environ)[0].trusted
    assert "pre_exec" in printed(capsys, "show", "@theirs/plain")
    assert len(list((Path(os.environ["GB10_CACHE_DIR"]) / "registries").iterdir())) == 1


def test_a_recipe_of_a_registry_is_shown_rendered_and_checked(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "add", str(theirs))
    assert "vllm serve org/m" in printed(capsys, "render", "@theirs/deep/hook")
    assert "vllm serve org/m" in printed(capsys, "render", "@theirs/recipes/deep/hook.yaml")
    assert "@theirs/recipes/mod.yaml" in printed(capsys, "lint", "@theirs", "--allow-unchecked")
    assert "the mod mods/fix runs as root" in printed(capsys, "show", "@theirs/mod")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("@theirs/plane", "did you mean @theirs/plain?"),
        ("@their/plain", "did you mean @theirs? known: @theirs"),
        ("@theirs", "recipe list @theirs"),
        ("@theirs/../../x", "recipe list @theirs shows its recipes"),
        ("plain", "did you mean @theirs/plain?"),
    ],
)
def test_an_unknown_name_names_the_closest(
    name: str, hint: str, theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "add", str(theirs))
    assert hint in printed(capsys, "show", name, code=2)


def test_a_name_of_two_recipes_needs_its_path(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(theirs, {"recipes/deep/plain.yaml": RECIPE})
    printed(capsys, "add", str(theirs))
    assert "names 2 recipes" in printed(capsys, "show", "@theirs/plain", code=2)
    printed(capsys, "show", "@theirs/deep/plain")
    assert "@theirs/recipes/plain " in printed(capsys, "list", "@theirs")


@pytest.mark.parametrize(("recipe", "power"), [("hook", "pre_exec"), ("mod", "the mod mods/fix")])
def test_what_it_does_beside_the_engine_needs_trust(
    recipe: str, power: str, theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "add", str(theirs))
    compare = ["bench", "compare", "--image", "a/b:1", "--out", str(theirs.parent / "out"), "", "port=9000", "--recipe"]
    for verb in (["plan", "--recipe"], ["image", "--dry-run", "--recipe"], ["run"], compare):
        assert main([*verb, f"@theirs/{recipe}"]) == 2
        said = capsys.readouterr().err
        assert power in said
        assert "add --trust" in said
    assert main(["run", f"@theirs/{recipe}", "--dry-run"]) == 0
    assert not (theirs.parent / "out").exists()
    if recipe == "mod":
        asked(f"@theirs/{recipe}", trust=True)
    assert main(["recipe", "remove", "@theirs"]) == 0
    printed(capsys, "add", str(theirs), "--trust")
    asked(f"@theirs/{recipe}")


def test_a_plain_recipe_of_a_registry_needs_none(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "add", str(theirs))
    assert asked("@theirs/plain").mods == ()


def service_of_registry(
    name: str, *, trust: bool = False, image: str | None = None, request: RenderRequest | None = None
) -> PreparedService:
    """What ``run`` and a form would start of ``@theirs/NAME``."""
    asked = ServiceRequest(recipe=f"@theirs/{name}", trust=trust, image=image, render=request or RenderRequest())
    return prepare_elsewhere(Reporter({}), os.environ, asked)


def test_the_command_is_judged_with_its_values_and_started_without_a_shell(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(theirs, {"recipes/evil.yaml": f"{RECIPE.rstrip()} --x {{x}}\ndefaults: {{x: $(id)}}\n"})
    write(theirs, {"recipes/good.yaml": f"{RECIPE.rstrip()} --x {{x}}\ndefaults: {{x: 1}}\n"})
    printed(capsys, "add", str(theirs))
    for verb in (["run"], ["image", "--dry-run", "--recipe"], ["recipe", "render", "--as", "docker"]):
        assert main([*verb, "@theirs/evil"]) == 2
        assert "plain options: a shell reads $: $(id)" in capsys.readouterr().err
    assert main(["run", "@theirs/evil", "--dry-run"]) == 0
    assert "needs --trust: @theirs/recipes/evil.yaml:3: the command" in capsys.readouterr().err
    assert main(["recipe", "render", "@theirs/evil"]) == 0
    assert "read it before you run it, run needs --trust: @theirs" in capsys.readouterr().err
    assert "a shell reads $" in printed(capsys, "show", "@theirs/evil")
    words = ("vllm", "serve", "org/m", "--gpu-memory-utilization", "0.8", "--x", "1", "--served-model-name", "org/m")
    assert service_of_registry("good").service.ranks[0].container.argv == words
    assert service_of_registry("good", trust=True).service.ranks[0].container.argv == ()
    chosen = RenderRequest(overrides=(("x", "$(id)"),))
    assert "a quotation holds $" in service_of_registry("good", request=chosen).powers[0].text
    script = printed(capsys, "render", "@theirs/good", "--as", "docker")
    assert " -- vllm serve org/m --gpu-memory-utilization 0.8 --x 1 " in script


def test_an_image_that_the_user_names_needs_no_trust(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, image in (("theirs", "a/b:1"), ("like", "example.org/x/dgx-vllm-eugr-nightly:latest")):
        write(theirs, {f"recipes/{name}.yaml": RECIPE.replace("vllm/vllm-openai:v0.33.0", image)})
    printed(capsys, "add", str(theirs))
    for name in ("theirs", "like"):
        assert "are of somebody's image" in service_of_registry(name).powers[0].text
        assert service_of_registry(name, image="mine/x:1").powers == ()


def image_of(release: str | None) -> ImageInfo:
    """An image of ours of a release of vLLM, or one of others."""
    labels = {KEY: "x", TITLE: "vllm for GB10", VERSION: release} if release else {VERSION: "0.33.0"}
    return ImageInfo(id="sha256:1", size=0, diff_ids=(), platform="linux/arm64", tags=(), labels=labels)


@pytest.mark.parametrize(
    ("name", "release", "runs"),
    [
        ("drop-caches", None, True),
        ("drop-caches", "0.33.0", False),
        ("exp-b12x", None, True),
        ("exp-b12x", "0.32.0", True),
        ("exp-b12x", "0.33.0", False),
        ("use-ngc-vllm", None, True),
        ("fix", "0.33.0", True),
        ("fixed-memory", None, False),
        ("gpu-mem-util-gb", None, False),
        ("copy-of-ours", None, False),
    ],
)
def test_a_mod_needs_trust_where_its_own_folder_would_run(
    name: str, release: str | None, runs: bool, theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "copy-of-ours":
        shutil.copytree(MODS / "fixed-memory", theirs / "mods" / name)
    else:
        write(theirs, {f"mods/{name}/run.sh": "#!/bin/bash\nid\n"})
    write(theirs, {"recipes/one.yaml": f"{RECIPE}mods: [mods/{name}]\n"})
    printed(capsys, "add", str(theirs))
    reporter, file = Reporter({}), find_recipe("@theirs/one")

    def mods(*, trust: bool) -> list[str]:
        return [str(mod.path) for mod in mods_to_run(reporter, load_file(file), file, image_of(release), trust=trust)]

    own = f"/tree/mods/{name}"
    if runs:
        with pytest.raises(UsageError) as caught:
            mods(trust=False)
        assert f"the mod mods/{name} runs as root" in (caught.value.where or "")
        assert mods(trust=True)[0].endswith(own)
    else:
        assert not any(path.endswith(own) for path in mods(trust=False))
        assert mods(trust=True) == mods(trust=False)
    mine = RecipeFile(theirs / "recipes/one.yaml")
    assert len(mods_to_run(reporter, load_file(mine), mine, image_of(release), trust=False)) == len(mods(trust=True))


def test_a_form_that_passes_mods_on_needs_trust_for_each(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(theirs, {"mods/drop-caches/run.sh": "#!/bin/bash\nid\n"})
    write(theirs, {"recipes/one.yaml": f"{RECIPE}mods: [mods/drop-caches]\n"})
    # sparkrun finds a mod by its name: one that is called like ours is theirs.
    write(theirs, {"mods/fixed-memory/run.sh": "#!/bin/bash\nid\n"})
    write(theirs, {"recipes/two.yaml": f"{RECIPE}mods: [mods/fixed-memory]\n"})
    printed(capsys, "add", str(theirs))
    assert "drop-caches runs as root" in printed(capsys, "render", "@theirs/one", "--as", "sparkrun", code=2)
    assert "- mods/drop-caches" in printed(capsys, "render", "@theirs/one", "--as", "sparkrun", "--trust")
    assert "drop-caches" not in printed(capsys, "render", "@theirs/one", "--as", "compose")
    assert "fixed-memory runs as root" in printed(capsys, "render", "@theirs/two", "--as", "sparkrun", code=2)


@pytest.mark.parametrize(("release", "needed"), [("0.32.0", True), ("0.33.0", False)])
def test_a_mod_needs_trust_in_the_image_that_would_be_built(
    release: str, needed: bool, theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(theirs, {"mods/exp-b12x/run.sh": "#!/bin/bash\nid\n"})
    write(theirs, {"recipes/one.yaml": f"{RECIPE.replace('0.33.0', release)}mods: [mods/exp-b12x]\n"})
    printed(capsys, "add", str(theirs))
    if not needed:
        assert asked("@theirs/one").mods == ()
        return
    with pytest.raises(UsageError) as caught:
        asked("@theirs/one")
    assert "the mod mods/exp-b12x runs as root" in (caught.value.where or "")
    assert asked("@theirs/one", trust=True).mods[0].endswith("/mods/exp-b12x")


def test_a_mod_never_lies_outside_of_its_registry(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(theirs.parent, {"evil/run.sh": "#!/bin/bash\n"})
    for number, mod in enumerate(("../../../../evil", str(theirs.parent / "evil"), "@theirs/../../evil")):
        write(theirs, {f"recipes/evil{number}.yaml": f"{RECIPE}mods: ['{mod}']\n"})
    printed(capsys, "add", str(theirs), "--trust")
    for number in range(3):
        with pytest.raises(UsageError, match=r"is neither beside the recipe nor one of ours|is not rendered"):
            asked(f"@theirs/evil{number}")


def test_a_mod_of_another_registry_is_found_and_needs_its_trust(
    theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"{RECIPE}mods: ['@theirs/fix']\n", encoding="utf-8")
    with pytest.raises(UsageError, match="is neither beside the recipe"):
        asked(str(mine))
    printed(capsys, "add", str(theirs))
    with pytest.raises(UsageError) as caught:
        asked(str(mine))
    assert "the mod @theirs/fix runs as root" in (caught.value.where or "")
    (mod,) = asked(str(mine), trust=True).mods
    assert mod.endswith("/tree/mods/fix")


def test_a_file_is_a_registry_of_one_recipe(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "add", str(theirs / "recipes/plain.yaml"), "--name", "one")
    assert "@one/plain" in printed(capsys, "list", "@one")


def test_a_name_is_given_once(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "add", str(theirs))
    assert "recipe add --update @theirs" in printed(capsys, "add", str(theirs), code=2)
    assert "give another: --name" in printed(capsys, "add", str(theirs / "recipes"), "--name", "theirs", code=2)
    printed(capsys, "remove", "@theirs")
    assert read_registries(os.environ) == ()
    assert not list((Path(os.environ["GB10_CACHE_DIR"]) / "registries").iterdir())


def test_content_that_the_store_lost_is_taken_again_if_it_is_the_same(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "add", str(theirs))
    (pin,) = (Path(os.environ["GB10_CACHE_DIR"]) / "registries").iterdir()
    pin.rename(pin.with_name("gone"))
    assert "@theirs/plain" in printed(capsys, "list", "@theirs")
    pin.rename(pin.with_name("gone too"))
    write(theirs, {"recipes/plain.yaml": HOOK})
    assert "recipe add --update @theirs" in printed(capsys, "show", "@theirs/plain", code=5)


def test_a_broken_file_of_registries_is_named(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(theirs.parent, {"config/gb10/registries.json": '{"version": 1, "registries": [{"nam": 1}]}'})
    assert "registries.json:1:" in printed(capsys, "list", code=2)


@pytest.mark.parametrize(
    ("text", "kind", "source", "name"),
    [
        ("https://h/a/b.git", "git", "https://h/a/b.git", "b"),
        ("https://h/a/b/", "git", "https://h/a/b", "b"),
        ("git@h:a/b.git", "git", "ssh://git@h/a/b.git", "b"),
        ("ssh://me@h/b", "git", "ssh://me@h/b", "b"),
        ("http://localhost:1/b", "git", "http://localhost:1/b", "b"),
        ("https://h/x/r.yaml", "web", "https://h/x/r.yaml", "r"),
        ("https://h/a/ b%20c", "", "", ""),
        ("http://h/b", "", "", ""),
        ("ext::sh -c id://x", "", "", ""),
        ("https://me:secret@h/b", "", "", ""),
        ("https://token@h/b", "", "", ""),
        ("--upload-pack=x://y", "", "", ""),
        ("/nowhere/at/all", "", "", ""),
        ("https://[h/b", "", "", ""),
    ],
)
def test_where_a_registry_may_come_from(text: str, kind: str, source: str, name: str) -> None:
    if kind:
        found = origin_of(text)
        assert (found.kind, found.source, found.name) == (kind, source, name)
        return
    with pytest.raises(UsageError) as caught:
        origin_of(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["-x", "a b", "a..b", "a:b", "+a", "", "a\n"])
def test_a_ref_is_a_plain_word(text: str) -> None:
    with pytest.raises(UsageError):
        check_ref(text)
    with pytest.raises(UsageError):
        check_registry_name(f"{text}/")


MANIFEST = ".sparkrun/registry.yaml"


def held(**files: str) -> Content:
    found = {name.replace("__", "/"): ModFile("file", text.encode()) for name, text in files.items()}
    return Content(files=found, left_out=0)


def manifest(text: str) -> Content:
    return Content(files={MANIFEST: ModFile("file", text.encode())}, left_out=0)


def test_the_parts_of_a_repository_are_those_of_its_manifest() -> None:
    text = "registries:\n- {name: a, recipes: x/, mods: ./y}\n- {name: b, recipes: z, visible: false}\n- {name: c}\n"
    first, second = parts_of(manifest(text), "whole", "here")
    assert (first.name, first.recipes, first.mods, first.visible) == ("a", "x", "y", True)
    assert (second.name, second.recipes, second.mods, second.visible) == ("b", "z", None, False)
    (whole,) = parts_of(held(a="x"), "whole", "here")
    assert (whole.name, whole.recipes) == ("whole", None)


@pytest.mark.parametrize(
    "text",
    [
        "registries: 1",
        "- x",
        "registries: []",
        "registries: [{name: '../x', recipes: y}]",
        "registries: [{name: a, recipes: ../../etc}]",
        "registries: [{name: a, recipes: x}, {name: a, recipes: y}]",
        "registries: [{recipes: x}]",
        "a: [",
        "\x00",
    ],
)
def test_a_broken_manifest_is_one_error(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        parts_of(manifest(text), "whole", "here")


def test_changes_are_those_of_recipes_and_mods_alone() -> None:
    old = held(a__x_yaml="", **{"r/x.yaml": RECIPE, "r/y.yaml": RECIPE, "q/z.yaml": RECIPE, "m/run.sh": "1"})
    new = held(**{"r/x.yaml": HOOK, "q/z.yaml": HOOK, "m/run.sh": "1", "m/file": "2", "r/n.yaml": "a: 1\n"})
    found = {(one.kind, one.what): one.powers for one in changes_of(old, new, "r")}
    assert found == {
        ("changed", "recipe r/x.yaml"): ("pre_exec runs as root in each container: apt-get install x",),
        ("removed", "recipe r/y.yaml"): (),
        ("changed", "mod m"): (),
    }
    assert changes_of(old, old, None) == ()


def packed(folder: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    path = folder / "registry-0.tar"
    with tarfile.open(path, mode="w") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.mode = kind, link, 0o644
    return found


def test_an_archive_gives_plain_files_alone(tmp_path: Path) -> None:
    text = RECIPE.encode()
    path = packed(
        tmp_path,
        (member("registry-0/good.yaml"), text),
        (member("registry-0/link.yaml", tarfile.SYMTYPE, "/etc/passwd"), b""),
        (member("registry-0/hard.yaml", tarfile.LNKTYPE, "/etc/passwd"), b""),
        (member("registry-0/device.yaml", tarfile.CHRTYPE), b""),
        (member("registry-0/../../up.yaml"), text),
        (member("registry-0/a/../../up.yaml"), text),
        (member("registry-0//abs.yaml"), text),
        (member("registry-0/odd\n.yaml"), text),
        (member(f"registry-0/{'d/' * 20}deep.yaml"), text),
        (member(f"registry-0/{'l' * 250}.yaml"), text),
        (member("registry-0/.git/config.yaml"), text),
        (member("registry-0/picture.png"), b"x"),
    )
    found = content_of_tar(path, "here")
    assert sorted(found.files) == ["abs.yaml", "good.yaml"]
    assert found.left_out == 9


def test_a_folder_gives_plain_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"r/a.yaml": RECIPE, "m/run.sh": "x", "m/big": "y" * 100, "r/huge.yaml": "z" * 2_000_000})
    (tmp_path / "r/link.yaml").symlink_to("/etc/passwd")
    (tmp_path / "up").symlink_to("/")
    os.mkfifo(tmp_path / "r/pipe.yaml")
    found = content_of_folder(tmp_path)
    assert sorted(found.files) == ["m/big", "m/run.sh", "r/a.yaml"]
    assert found.left_out == 3
    monkeypatch.setattr(content, "MOST_SEEN", 9)  # with the folders and what is left out
    assert content_of_folder(tmp_path) == found
    monkeypatch.setattr(content, "LARGEST", 50)
    with pytest.raises(UsageError, match="MiB of them"):
        content_of_folder(tmp_path)
    monkeypatch.setattr(content, "MOST_SEEN", 3)
    with pytest.raises(UsageError, match="more than 3 files"):
        content_of_folder(tmp_path)


HOST = """executor_config:
  volumes: [/data:/data, kv:/kv]
  devices: [/dev/infiniband, /dev/fuse]
  cap_add: [SYS_PTRACE]
  ipc: private
"""


def test_each_thing_of_the_host_needs_a_flag_of_its_own(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With trust the network's devices, volumes of Docker and Docker's limits; a folder, a right by its own flag."""
    write(theirs, {"recipes/host.yaml": f"{RECIPE.replace('org/m', '/models/m')}{HOST}"})
    printed(capsys, "add", str(theirs))
    form = ("render", "@theirs/host", "--as", "docker")
    assert "add --trust" in printed(capsys, *form, code=2)
    said = printed(capsys, *form, "--trust", code=2)
    wanted = [line.rpartition(": ")[2].strip() for line in said.splitlines() if ": --allow" in line]
    assert wanted == [
        "--allow-path /data",
        "--allow devices=/dev/fuse",
        "--allow cap_add=SYS_PTRACE",
        "--allow-path /models/m",
    ]
    flags = [word for flag in wanted for word in flag.split()]
    call = printed(capsys, *form, "--trust", *flags)
    for part in (
        "--mount type=bind,source=/data,target=/data",
        "--volume host-kv:/kv",
        "--device /dev/infiniband:/dev/infiniband:rwm",
        "--device /dev/fuse:/dev/fuse:rwm",
        "--cap-add SYS_PTRACE",
        "--ipc private",
        "--mount type=bind,source=/models/m,target=/models/m,readonly",
    ):
        assert part in call, part
    for index in range(0, len(flags), 2):
        assert flags[index + 1] in printed(capsys, *form, "--trust", *flags[:index], *flags[index + 2 :], code=2)
    assert "--volume kv:/kv" in printed(capsys, *form, "--trust", *flags, "--allow", "volumes=kv:/kv")
    by_entry = [*flags[2:], "--allow", "volumes=/data:/data"]
    assert "--allow-path /data" in printed(capsys, *form, "--trust", *by_entry, code=2)
    said = printed(capsys, *form, "--trust", *flags, "--allow", "cap_add=SYS_ADMIN", code=2)
    assert "--allow cap_add=SYS_ADMIN: the recipe asks for no such thing" in said
    assert "absolute path" in printed(capsys, *form, "--trust", "--allow-path", "data", code=2)


def test_no_spelling_of_a_path_gets_more_than_its_flag(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A step up below an allowed device or folder is a mistake of the recipe, never a way out of it."""
    for name, config in (
        ("up", "devices: ['/dev/infiniband/..:/dev/x']"),
        ("out", "volumes: ['/data/../etc:/x']"),
        ("dot", "volumes: ['/data/./x:/x']"),
    ):
        write(theirs, {f"recipes/{name}.yaml": f"{RECIPE}executor_config: {{{config}}}\n"})
    printed(capsys, "add", str(theirs))
    for name in ("up", "out", "dot"):
        flags = ("--trust", "--allow-path", "/data")
        assert "is not " in printed(capsys, "render", f"@theirs/{name}", "--as", "docker", *flags, code=2)


def test_a_pod_gets_no_folder_of_the_node_by_the_name_of_a_volume(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(theirs, {"recipes/pod.yaml": f"{RECIPE}executor_config: {{volumes: ['x:/root/.ssh']}}\n"})
    write(theirs, {"recipes/gpu.yaml": f"{RECIPE}executor_config: {{devices: [/dev/dri]}}\n"})
    printed(capsys, "add", str(theirs))
    text = printed(capsys, "render", "@theirs/pod", "--as", "k8s", "--trust")
    paths = [line.partition("path: ")[2].strip('"') for line in text.splitlines() if " path: " in line]
    assert "/var/lib/gb10/volumes/pod-x" in paths
    assert "/root/.ssh" not in paths
    said = printed(capsys, "render", "@theirs/gpu", "--as", "k8s", "--trust", code=2)
    assert "Kubernetes cannot give a pod what the recipe asks of its host: devices" in said
