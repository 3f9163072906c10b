"""A Dockerfile of others, line by line: what a recipe takes, what runs as a mod, what is left out and why."""

import json
import os
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
import yaml

from gb10.cli import main
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import FetchError, PublishError, UsageError
from gb10.image.adopt.adopted import Adopted, Line
from gb10.image.adopt.adopting import Wanted, adopt, import_names, unchecked_error
from gb10.image.adopt.dockerfile import expand, parse_dockerfile
from gb10.image.adopt.ignore_file import is_left_out, read_rules
from gb10.image.adopt.installs import Tree, git_checkout, git_clone, pip_arguments, read_install
from gb10.image.adopt.recipe_files import write_recipe
from gb10.image.adopt.shell import parse_commands
from gb10.image.lock.lockfile import load_any
from gb10.image.mods.read import load_mod
from gb10.image.patches.release_files import Library
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.on_image import OnImage
from gb10.image.request.from_image import beside

DRIVES = (
    "gb10.image.adopt.accounting",
    "gb10.image.adopt.build_files",
    "gb10.image.adopt.run_lines",
)  # through others: see tests/mutations.py

BASE = f"vllm/vllm-openai:v0.33.0@sha256:{'a' * 64}"
SITE = "/usr/local/lib/python3.12/dist-packages"
DIFF = "--- a/vllm/envs.py\n+++ b/vllm/envs.py\n@@ -1,2 +1,2 @@\n import os\n-A = 1\n+A = 2\n"


def library(tmp_path: Path) -> Library:
    store = Store(tmp_path / "s")
    return Library(root=ROOT / "patches", store=store, env={}, reporter=Reporter({}, verbosity=-1))


def adopted(tmp_path: Path, text: str, **given: object) -> Adopted:
    """The Dockerfile FROM an image with an engine, then ``text``."""
    (tmp_path / "Dockerfile").write_text(f"FROM {BASE}\n{text}\n")
    return adopt(library(tmp_path), Wanted(place=tmp_path / "Dockerfile", **given))  # type: ignore[arg-type]


def verdicts(found: Adopted, instruction: str = "RUN") -> list[tuple[str, str]]:
    return [(line.verdict, line.need) for line in found.lines if line.instruction == instruction]


def line_of(found: Adopted, part: str) -> Line:
    return next(line for line in found.lines if part in line.text)


def test_the_base_is_taken_by_digest_and_a_tag_is_said(tmp_path: Path) -> None:
    found = adopted(tmp_path, "")
    assert (found.base, found.remarks, found.counts) == (BASE, (), {"taken": 1})
    (tmp_path / "Dockerfile").write_text("ARG V=v0.30.0\nFROM vllm/vllm-openai:${V} AS x\nFROM x\n")
    found = adopt(library(tmp_path), Wanted(place=tmp_path))
    assert found.base == "vllm/vllm-openai:v0.30.0"
    assert "names no digest" in found.remarks[0]


def index_of(folder: Path, wheels: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """A package index of wheels that hold these files, as the variables of who reads it."""
    for name, paths in wheels.items():
        place = folder / name.partition("-")[0].replace("_", "-")
        place.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(place / name, "w") as wheel:
            for path in paths:
                wheel.writestr(path, "")
        names = sorted(file.name for file in place.glob("*.whl"))
        (place / "index.html").write_text("".join(f'<a href="{(place / one).as_uri()}">{one}</a>' for one in names))
    return {"PIP_INDEX_URL": folder.as_uri(), "PIP_CONFIG_FILE": os.devnull}


def test_a_module_is_known_by_the_files_of_its_package(tmp_path: Path) -> None:
    """A package that is not taken may be imported by another name than its own."""
    files = ("cv2/__init__.py", "single.py", "fast.cpython-312-aarch64-linux-gnu.so", "o-1.data/purelib/late/a.py")
    env = index_of(
        tmp_path / "index",
        {
            "opencv_python-2.0-py3-none-any.whl": (*files, "docs/a.md", "o-1.data/scripts/x.py", "o-1.dist-info/x.py"),
            "opencv_python-1.9-py3-none-any.whl": ("older.py",),
            "opencv_python-odd-py3-none-any.whl": ("odd.py",),
        },
    )
    assert import_names(env, "opencv-python") == {"cv2", "single", "fast", "late"}
    with pytest.raises(FetchError, match="no wheel of nothing"):
        import_names(env, "nothing")

    found = adopted(tmp_path, "RUN pip install opencv-python -i https://h/s\nRUN python3 -c 'import cv2; open(1)'")
    assert (found.unsure, verdicts(found)[1]) == (("opencv-python",), ("mod", ""))
    wanted = Wanted(place=tmp_path / "Dockerfile")
    asked = adopt(library(tmp_path), wanted, None, partial(import_names, env))
    assert verdicts(asked)[1] == ("not-taken", "lost")
    assert not asked.remarks
    unknown = adopt(library(tmp_path), wanted, None, partial(import_names, env | {"PIP_INDEX_URL": tmp_path.as_uri()}))
    assert verdicts(unknown)[1] == ("mod", "")
    assert "opencv-python is imported by is not known" in unknown.remarks[-1]
    assert not adopted(tmp_path, "RUN pip install a -i https://h/s\nRUN python3 -c 'import os, a; open(1)'").unsure


def test_an_argument_that_no_arg_reads_is_an_error_with_the_closest(tmp_path: Path) -> None:
    text = "ARG TORCH_ARCH=12.1\nRUN echo $TORCH_ARCH"
    adopted(tmp_path, text, arguments={"TORCH_ARCH": "12.1a", "http_proxy": "http://p"})
    with pytest.raises(UsageError, match="no ARG of Dockerfile reads TORCH_ARCHS") as caught:
        adopted(tmp_path, text, arguments={"TORCH_ARCHS": "12.1a"})
    assert "--build-arg TORCH_ARCH=" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="reads NOPE") as caught:
        adopted(tmp_path, text, arguments={"NOPE": "1"})
    assert caught.value.hint == "it reads TORCH_ARCH"
    with pytest.raises(UsageError, match="reads NOPE") as caught:
        adopted(tmp_path, "", arguments={"NOPE": "1"})
    assert "has no ARG" in (caught.value.hint or "")


def test_a_registry_out_of_reach_is_said_whole_with_its_hint(tmp_path: Path) -> None:
    def refuse(reference: str) -> dict[str, str]:
        raise PublishError("cannot reach the registry h.example", hint="check its name")

    (tmp_path / "Dockerfile").write_text(f"FROM {BASE}\nENV A=$PATH:/x\n")
    found = adopt(library(tmp_path), Wanted(place=tmp_path), refuse)
    assert found.remarks[-1] == "cannot reach the registry h.example; check its name"
    made = write_recipe(tmp_path / "made.yaml", found, "Dockerfile")
    assert "# cannot reach the registry h.example; check its name\n" in made.recipe.read_text()


def test_what_pip_installs_becomes_requirements(tmp_path: Path) -> None:
    (tmp_path / "req.txt").write_text(
        "ray==2.50.0 \\\n  --hash=sha256:00\n-c more.txt\n# text\nnumpy>=2 ; python_version > '3'\n"
    )
    (tmp_path / "more.txt").write_text("numba==0.60\n")
    found = adopted(
        tmp_path,
        'ARG V=1.2\nCOPY req.txt more.txt /tmp/\nRUN cd /tmp && pip install --no-cache-dir "exllamav3==${V}" \\\n'
        "  # a comment\n  -r req.txt && rm -rf /tmp/req.txt /root/.cache/pip",
    )
    assert found.requirements == ("exllamav3==1.2", "ray==2.50.0", "numpy>=2 ; python_version > '3'")
    assert found.constraints == ("numba==0.60",)
    assert list(found.overlay) == ["/tmp/more.txt"]  # noqa: S108 - the other one is removed again
    assert not found.mods
    assert {line.verdict for line in found.lines} == {"taken", "no-effect"}


@pytest.mark.parametrize(
    ("command", "need", "why"),
    [
        ("pip install git+https://github.com/a/b.git@0123abcd", "wheel", "https://github.com/a/b.git at 0123abcd"),
        ("uv pip install --system https://github.com/a/b/archive/v1.tar.gz", "wheel", "b.git at v1"),
        ("pip install --index-url https://u:p@index.example/cu130 torch", "index", "https://index.example/cu130"),
        ("pip install $(cat list)", "value", "computed when it runs"),
        ("pip install --odd x", "value", "--odd is not known"),
        ("pip install https://example.com/x.whl", "value", "a file of the web"),
        ("git clone https://github.com/a/b /src", "wheel", "https://github.com/a/b"),
        ("curl -LsSf https://astral.sh/uv/install.sh | sh", "download", "a script of the web"),
        ("wget -O /x https://example.com/x", "download", "wget fetches"),
        ("cmake --build build", "wheel", "cmake compiles"),
        ("python3 setup.py install", "wheel", "python3 compiles"),
        ("apt-get upgrade -y", "base", "newest on the day"),
        ("cp /wheels/$NONE /x", "value", "--build-arg NONE=VALUE"),
        ("for i in 1 2; do git fetch; done", "wheel", "git fetches"),
    ],
)
def test_what_no_lock_has_is_left_out_with_the_reason(tmp_path: Path, command: str, need: str, why: str) -> None:
    found = adopted(tmp_path, f"ARG NONE\nRUN {command}")
    assert verdicts(found) == [("not-taken", need)]
    assert why in line_of(found, command[:20]).why
    assert not found.mods
    assert not found.requirements


def test_what_is_compiled_names_the_wheel_that_it_takes(tmp_path: Path) -> None:
    found = adopted(
        tmp_path,
        "ARG REF=5be886578ec80324c2c715269387be2058724b6e\n"
        "RUN git clone https://github.com/turboderp-org/exllamav3.git /opt/exl && git -C /opt/exl checkout $REF \\\n"
        "  && sed -i s/a/b/ /opt/exl/setup.py && cd /opt/exl && TORCH_CUDA_ARCH_LIST=12.1a pip install . \\\n"
        '  && python3 -c "import exllamav3" && rm -rf /opt/exl',
    )
    assert [line.verdict for line in found.lines if line.instruction == "RUN"] == [
        *["not-taken"] * 3, "no-effect", "not-taken", "not-taken", "no-effect",
    ]  # fmt: skip
    (wheel,) = found.wheels
    assert (wheel.name, wheel.ref) == ("exllamav3", "5be886578ec80324c2c715269387be2058724b6e")
    assert not found.mods


def test_commands_that_change_the_image_are_a_mod_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "fix.py").write_text("print(1)\n")
    found = adopted(
        tmp_path,
        "ARG N=7\nENV K=v\nCOPY fix.py /opt/fix.py\nRUN apt-get update && apt-get install -y gcc\n"
        'WORKDIR /opt\nRUN set -eux; test -d /a; sed -i "s/1/$N/" /a/b.py && python3 fix.py $K\n'
        "COPY fix.py /late.py\nRUN python3 - <<'PY' > /log\nimport os\n# kept\nPY\nRUN echo done",
    )
    packages, edits = found.mods
    assert packages.network
    assert "apt-get update && apt-get install -y gcc" in packages.script
    assert not edits.network
    assert edits.script.index("sed -i") < edits.script.index("$here/files/8/.") < edits.script.index("# kept")
    assert "env N='7' " in edits.script
    assert "cd '/opt'" in edits.script
    assert list(edits.files) == ["files/8/late.py"]
    assert found.env == {"K": "v"}
    assert list(found.overlay) == ["/opt/fix.py"]
    assert line_of(found, "echo done").verdict == "no-effect"
    assert found.counts["mod"] == 7


def test_a_diff_on_site_packages_is_a_patch_unless_a_command_came_before(tmp_path: Path) -> None:
    (tmp_path / "1.patch").write_text(DIFF)
    inside = DIFF.replace("vllm/", "")
    (tmp_path / "2.patch").write_text(inside)
    copy = "COPY 1.patch 2.patch /tmp/p/\n"
    found = adopted(tmp_path, f"{copy}RUN cd {SITE} && git apply --whitespace=nowarn /tmp/p/1.patch")
    assert found.patches["0001-1.patch"].decode() == DIFF
    found = adopted(tmp_path, f"{copy}RUN patch -p1 -d {SITE}/vllm < /tmp/p/2.patch")
    assert b"+++ b/vllm/envs.py" in found.patches["0001-2.patch"]
    found = adopted(tmp_path, f"{copy}RUN touch /x\nRUN cd {SITE} && git apply /tmp/p/1.patch")
    assert not found.patches
    assert "git apply" in found.mods[0].script
    (tmp_path / "envs.py").write_text("import os\nA = 1\n")
    found = adopted(tmp_path, f"{copy}COPY envs.py {SITE}/vllm/envs.py\nRUN cd {SITE} && git apply /tmp/p/1.patch")
    assert not found.patches  # an overlay lies above patches


def test_what_would_leave_a_broken_image_is_left_out_with_the_rest(tmp_path: Path) -> None:
    """A package that is removed for one that is not taken, and what reads a mount or a file that nobody makes."""
    found = adopted(
        tmp_path,
        "RUN pip uninstall -y vllm || true; git clone https://github.com/a/b /b && pip install /b\n"
        "RUN pip uninstall -y old\n"
        "RUN --mount=type=bind,from=x/y,source=/deb,target=/debs cd /debs && apt-get install -y ./*.deb\n"
        "RUN curl -LsSf https://a.b/i.sh | sh && . $HOME/.local/bin/env\n"
        "RUN d=/src && git init $d && git -C $d fetch https://a/b && V=$(cat $d/version) && git -C $d log > /v\n"
        "RUN curl -L https://github.com/c/d/archive/v2.tar.gz | tar xz -C /d && pip install /d\n"
        "RUN pip install --upgrade pip wheel\n",
    )
    assert [(line.first, line.verdict) for line in found.lines if line.verdict in ("mod", "taken")] == [
        (1, "taken"), (3, "mod"),
    ]  # fmt: skip
    assert found.mods[0].script.count("pip uninstall") == 1
    assert [(wheel.name, wheel.ref) for wheel in found.wheels] == [("b", ""), ("d", "v2")]
    assert line_of(found, "pip install --upgrade").verdict == "no-effect"


def test_other_stages_are_left_out_by_reason(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        f"FROM {BASE} AS made\nRUN git clone https://github.com/a/b.git /b\nFROM alpine AS vain\nRUN x\n"
        f"FROM {BASE}\nCOPY --from=made /b/lib.so /opt/made/\nRUN cp /opt/made/lib.so /x\nRUN ls /opt/madeup > /y\n"
    )
    found = adopt(library(tmp_path), Wanted(place=tmp_path))
    assert [line.verdict for line in found.lines] == [*["other-stage"] * 4, "taken", "not-taken", "not-taken", "mod"]
    assert "the image takes /b/lib.so of it" in found.lines[0].why
    assert "the image takes nothing of it" in found.lines[2].why
    assert [wheel.url for wheel in found.wheels] == ["https://github.com/a/b.git"]
    assert adopt(library(tmp_path), Wanted(place=tmp_path, target="made")).lines[1].verdict == "not-taken"
    with pytest.raises(UsageError, match="no stage none"):
        adopt(library(tmp_path), Wanted(place=tmp_path, target="none"))


def test_settings_of_an_image(tmp_path: Path) -> None:
    found = adopted(
        tmp_path,
        'ENV A=1 B="$A two" \\\n    PATH=/x:$PATH\nENV HF_TOKEN=hf_x\nENV OLD a b\nLABEL x=y\nUSER root\nUSER 1000\n'
        'EXPOSE 80\nENTRYPOINT ["vllm", "serve"]\nCMD vllm\nSHELL ["/bin/bash", "-c"]\nHEALTHCHECK NONE',
    )
    assert found.env == {"A": "1", "OLD": "a b"}
    assert verdicts(found, "ENV") == [
        ("taken", ""), ("unchecked", "base"), ("unchecked", "base"), ("not-taken", "launch"), ("taken", ""),
    ]  # fmt: skip
    assert "hf_x" not in repr(found)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ENV A='a b' B=\"c\" C=d'e'f", ("A=a b", "B=c", "C=def")),
        ("ENV A 'x' y", ("A=x y",)),
        ('env a b "c d"', ("a=b c d",)),
        ('ENV A="a \\\n b" \\\n  # no line of it\n  B=c\\ d', ("A=a  b", "B=c\\ d")),
        ('ENV A=\'$X\' B="\\$X" C="\\n"', ("A=\\$X", "B=\\$X", "C=\\\\n")),
        ('ENV A="${B:-x y}"', ("A=${B:-x y}",)),
        ('ARG A B="x y"', ("A", "B=x y")),
        ('ENV A="open b', None),
        ("ENV A=1 B", None),
        ("ENV A", None),
    ],
)
def test_settings_are_read_as_docker_reads_them(line: str, words: tuple[str, ...] | None) -> None:
    """Each was built by Docker 26 and its config read; what BuildKit refuses is no instruction."""
    [one] = parse_dockerfile(f"FROM x\n{line}\n".encode(), "D").stages[0].instructions
    assert (one.name, one.words) == (("", ()) if words is None else (line[:3].upper(), words))


def test_a_variable_of_the_base_is_asked_for_once(tmp_path: Path) -> None:
    text = f"FROM {BASE}\nENV PATH=/x:$PATH\nENV A=$NONE.\nRUN echo $HOME > /x\n"
    (tmp_path / "Dockerfile").write_text(text)
    asked = []

    def ask(reference: str) -> dict[str, str]:
        asked.append(reference)
        return {"PATH": "/bin", "HOME": "/h"}

    found = adopt(library(tmp_path), Wanted(place=tmp_path), ask)
    assert found.env == {"PATH": "/x:/bin", "A": "."}
    assert "export" not in found.mods[0].script
    assert asked == [BASE]

    def refuse(reference: str) -> dict[str, str]:
        raise PublishError(f"{reference} does not answer")

    found = adopt(library(tmp_path), Wanted(place=tmp_path), refuse)
    assert [line.verdict for line in found.lines][1:3] == ["unchecked", "unchecked"]
    assert found.remarks == (f"the config of {BASE} is not known", f"{BASE} does not answer")


def test_the_recipe_and_its_mods_are_what_gb10_reads(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "run.sh").write_text("true\n")
    (tmp_path / "run.sh").chmod(0o755)
    found = adopted(
        tmp_path,
        f'ENV A="x: \\"y\\" no"\nCOPY a.py run.sh {SITE}/vllm/\nRUN pip install ray==2.50.0\nRUN touch /x\nRUN wget x',
    )
    (tmp_path / "out").mkdir()
    made = write_recipe(tmp_path / "out/theirs.yaml", found, "a\nDockerfile")
    text = made.recipe.read_text()
    assert yaml.safe_load(text) == {
        "base": {"image": BASE}, "requirements": ["ray==2.50.0"], "mods": ["theirs/mods/theirs-1"],
        "env": {"A": 'x: "y" no'},
    }  # fmt: skip
    assert "#   6  RUN wget x" in text
    assert [
        path.name for path in (tmp_path / f"out/theirs/overlay{SITE}/vllm").iterdir() if os.access(path, os.X_OK)
    ] == ["run.sh"]
    read = load_any(made.recipe)
    assert isinstance(read, OnImage)
    assert beside(made.recipe, read.mods) == (str(made.mods[0]),)
    mod = load_mod(made.mods[0])
    assert mod.record is not None
    assert not mod.network
    assert made.command.startswith(f"./build.py image --engine {made.recipe} --overlay ")
    with pytest.raises(UsageError, match="is there already"):
        write_recipe(tmp_path / "out/theirs.yaml", found, "Dockerfile")


def test_what_is_not_in_the_folder_is_unchecked_with_an_exit_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = adopted(tmp_path, "COPY none /opt/none\nRUN bash /opt/none/install.sh")
    assert [line.verdict for line in found.lines] == ["taken", "unchecked", "not-taken"]
    error = unchecked_error(found, tmp_path)
    assert error is not None
    assert error.code == 13
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "s"))  # no line reads a variable of the base
    recipe = tmp_path / "theirs.yaml"
    assert main(["adopt", str(tmp_path), "-o", str(recipe), "--json"]) == 13
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "gb10/adopt/v1"
    assert document["counts"] == {"unchecked": 1, "not-taken": 1, "taken": 1}
    assert [line["verdict"] for line in document["lines"]] == ["taken", "unchecked", "not-taken"]
    assert recipe.is_file()
    (tmp_path / "Dockerfile").write_text("ARG X\nFROM $X\n")
    assert main(["adopt", str(tmp_path), "-o", str(tmp_path / "b.yaml")]) == 2
    assert not (tmp_path / "b.yaml").exists()


def test_a_folder_of_patches_needs_an_image(tmp_path: Path) -> None:
    (tmp_path / "1.patch").write_text(DIFF)
    (tmp_path / "2.diff").write_text("no diff")
    (tmp_path / "3.patch").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="does not name an image"):
        adopt(library(tmp_path), Wanted(place=tmp_path))
    found = adopt(library(tmp_path), Wanted(place=tmp_path, base=BASE))
    assert [line.verdict for line in found.lines] == ["taken", "not-taken", "not-taken"]
    assert list(found.patches) == ["1.patch"]


def test_links_and_paths_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/link").symlink_to("/etc/passwd")
    (tmp_path / "deep").symlink_to("/etc")
    for source in ("in/link", "../x", "deep/passwd", "in/*", "/../../etc/passwd"):
        found = adopted(tmp_path, f"COPY {source} /x/")
        assert verdicts(found, "COPY") == [("unchecked", "lost")], source
        assert not found.overlay


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$A-${B}", "1-2"),
        (r"\$A", "$A"),
        ("${C:-$A}", "1"),
        ("${E:-d}", "d"),
        ("${A:+x}${E:+y}", "x"),
        ("$D", None),
        ("${V#1.}${V##*.}", "2.33"),
        ("${V%.*}-${V%%.*}", "1.2-1"),
        ("${V/./_}${V//./}", "1_2.3123"),
        ("${V#x*}${V%*x}${V#*x}", "1.2.31.2.31.2.3"),
        ("${V#[12]}", None),
        ("${V/*/x}", None),
        ("${V%?}", None),
        ("${E-d}${E+x}", "x"),
        ("${D:-x}", None),
    ],
)
def test_variables_as_docker_puts_them_in(text: str, value: str | None) -> None:
    assert expand(text, {"A": "1", "B": "2", "C": None, "E": "", "V": "1.2.3"}) == value


def test_a_sign_of_a_comment_in_a_variable_is_part_of_its_line(tmp_path: Path) -> None:
    found = adopted(tmp_path, "ARG A=v1\nARG B=${A#v}\nENV C=$B\nRUN touch $B")
    assert [line.verdict for line in found.lines] == ["taken", "taken", "taken", "taken", "mod"]
    assert found.env == {"C": "1"}


def test_before_from_a_name_without_a_value_is_empty(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"ARG TAG=${{NONE:-x}}\nFROM {BASE.partition('@')[0]}-${{TAG}}\n")
    assert adopt(library(tmp_path), Wanted(place=tmp_path)).base.endswith("-x")


def test_instructions_and_their_lines() -> None:
    text = (
        b"# c\nfrom a as B\nRUN a \\\n  # c\n\n  && b\nRUN <<E\nx\n# y\nE\n"
        b'RUN ["a", "b c"]\nNONSENSE x\nCOPY <<\'E\' /z\n$A\nE\n'
    )
    (stage,) = parse_dockerfile(text, "D").stages
    first, script, array, odd, copy = stage.instructions
    assert stage.name == "b"
    assert (first.body, first.rows) == ("a \\\n  && b", (3, 6))
    assert script.heredocs[0].content == "x\n# y\n"
    assert (array.words, array.exec_form) == (("a", "b c"), True)
    assert (odd.name, odd.first) == ("", 12)
    assert copy.heredocs[0].literal
    for wrong in (b"", b"\xff", b"RUN x\n", b"# escape=`\nFROM x\n", b"x" * (1 << 21)):
        with pytest.raises(UsageError):
            parse_dockerfile(wrong, "D")


@pytest.mark.parametrize("text", ["cd /a && patch -p1 < x.patch", "cd /a; true && patch -p1 <x.patch 2> /dev/null"])
def test_a_redirection_at_the_end_of_a_list_is_of_its_last_command(text: str) -> None:
    """As a shell has it; the grammar gives it to the whole list."""
    first, *_, last = parse_commands(text, (4,), {})
    assert (first.words, first.reads) == (("cd", "/a"), ())
    assert (last.words, last.reads, last.whole, last.first) == (("patch", "-p1"), ("x.patch",), False, 4)
    assert last.text == text[text.index("patch") :]


def test_commands_of_a_shell() -> None:
    text = (
        "set -e; A=1 && pip install \"x==$A\" y$B 'z' && (cd /x; make) || true\n"
        "echo $A > /f 2>&1\nfor A in 1; do b; done; c $A"
    )
    setting, whole, echo, loop, last = parse_commands(text, range(1, 9), {"B": "b"})
    assert setting.words == ("set", "-e")
    assert whole.whole
    assert whole.inner[0].words == ("pip", "install", None, "yb", "z")
    assert (echo.writes, echo.first) == (("/f",), 2)
    assert loop.whole
    assert last.words == ("c", None)  # the loop may have set it


def test_words_of_pip_and_git() -> None:
    words = ("sudo", "-E", "env", "A=1", "/opt/venv/bin/python3.12", "-m", "pip", "-q", "install", "x")
    assert pip_arguments(words) == ("install", ("x",))
    assert pip_arguments(("uv", "--quiet", "pip", "install", "x")) == ("install", ("x",))
    assert pip_arguments(("uv", "build")) is None
    assert pip_arguments(("python3", "-m", "pip", "install", "x")) == ("install", ("x",))
    assert pip_arguments(("python3", "-m")) is None
    assert git_clone(("git", "clone", "--depth", "1", "-b", "v1", "https://u:p@h/a.git")) == (
        Tree(url="https://h/a.git", ref="v1"), "a"
    )  # fmt: skip
    assert git_checkout(("git", "-C", "/a", "checkout", "-q", "abc")) == ("/a", "abc")
    found = read_install(("-r", "/a", "x==1", "./wheel.whl", "-e", "."), {"/a": "-r /a\ny"}.get)
    assert found.requirements == ("y", "x==1")
    assert found.places == ("./wheel.whl",)
    assert found.problems == ("/a is not among the files that it copies", "-e .: no plain install of a wheel")


SAID = [
    # a redirection takes one word, also the one that somebody forgot to quote
    ("RUN pip install --no-deps transformers>=4.37.0 accelerate chandra-ocr", [("taken", "transformers, accelerate")]),
    # what a removal keeps small stays small
    (
        "RUN apt-get update && apt-get install -y git && rm -rf /var/lib/apt/lists/*",
        [("mod", ""), ("mod", ""), ("mod", "")],
    ),
    ("RUN pip install x && rm -rf /root/.cache", [("taken", ""), ("no-effect", "")]),
    ("RUN touch /a\nCOPY f.py /tmp/f.py\nRUN python3 /tmp/f.py && rm /tmp/f.py", [("mod", "")] * 3),
    ("COPY f.py /tmp/f.py\nRUN cd /tmp && python3 f.py && rm /tmp/f.py", [("mod", "")] * 3),
    ("RUN apt-get purge -y git && apt-get autoremove -y", [("mod", ""), ("mod", "apt autoremove")]),
    # sources that git fetches into the current folder
    (
        "RUN mkdir /tmp/d && cd /tmp/d && git init -q && git fetch x && rm -rf /usr/e && cp a /usr/e/",
        [
            ("mod", ""),
            ("mod", ""),
            *[("not-taken", "")] * 2,
            ("not-taken", "take its place"),
            ("not-taken", "git fetches"),
        ],
    ),
    (
        "RUN git clone https://h/a /a\nWORKDIR /a\nRUN apt-get install -y g++",
        [("not-taken", ""), ("mod", "apt install g++")],
    ),
    # a check of what is left out, in another RUN
    ("RUN git clone https://h/a /a\nRUN python3 -c 'import a'", [("not-taken", ""), ("not-taken", "it checks")]),
    (
        "RUN git clone https://h/a /a\nRUN python3 -c \"import shutil; shutil.rmtree('/x')\"",
        [("not-taken", ""), ("mod", "it runs")],
    ),
    # a Python of their own is not the base's
    (
        "RUN python3 -m venv /v && /v/bin/pip install x",
        [("not-taken", "of its own"), ("not-taken", "installs into /v")],
    ),
    ("RUN uv venv -p 3.12 /v\nENV PATH=/v/bin:/bin\nRUN pip install x", [("not-taken", ""), ("not-taken", "into /v")]),
    ("RUN uv venv /v\nENV PATH=/v/bin:$PATH\nRUN pip install x", [("not-taken", ""), ("not-taken", "into /v")]),
    ("RUN uv venv /v\nRUN uv pip install -p /v x", [("not-taken", ""), ("not-taken", "into /v")]),
    ("RUN uv venv /v && . /v/bin/activate && python f.py", [("not-taken", "")] * 2 + [("not-taken", "Python of /v")]),
    # a package that a command removes, and one of another name
    (
        "RUN pip uninstall -y a && pip install a==1 && pip install b",
        [("mod", ""), ("mod", "with a network"), ("taken", "")],
    ),
    ("RUN pip install -c /dev/stdin a <<'E'\nb==1\nE", [("taken", "requirements: a")]),
    ("RUN pip install /w/*.whl", [("not-taken", "not among the files")]),
    # who runs it, and what it needs that an image does not keep
    ("USER 1000\nRUN touch /a", [("not-taken", "it runs as 1000")]),
    ("USER 1000:1000\nUSER 0:0\nRUN touch /a", [("mod", "")]),
    ("RUN --mount=type=secret,id=t cat /run/secrets/t > /a", [("not-taken", "a secret of the build")]),
    ("RUN --mount=type=secret,id=t,env=T echo ${T} > /a", [("not-taken", "a secret of the build")]),
    (
        "RUN --mount=type=bind,source=no.txt,target=/n cat /n > /a",
        [("not-taken", "no.txt is not in the build context")],
    ),
    ("RUN --mount=type=bind,source=r.txt,target=/n/r.txt pip install -r /n/r.txt", [("taken", "requirements: q==1")]),
    (
        f"RUN --mount=source=1.patch,target=/p cd {SITE} && git apply /p",
        [("no-effect", ""), ("taken", "patches: p.patch")],
    ),
]


@pytest.mark.parametrize(("text", "expected"), SAID, ids=[text[:60] for text, _ in SAID])
def test_what_was_wrong_without_a_word(tmp_path: Path, text: str, expected: list[tuple[str, str]]) -> None:
    """Found by reading the verdicts of public Dockerfiles, line by line."""
    for name, content in (("f.py", "print()\n"), ("r.txt", "q==1\n"), ("1.patch", DIFF)):
        (tmp_path / name).write_text(content)
    lines = [line for line in adopted(tmp_path, text).lines if line.instruction == "RUN"]
    assert [line.verdict for line in lines] == [verdict for verdict, _ in expected]
    assert all(part in line.why for line, (_, part) in zip(lines, expected, strict=True)), lines


def test_a_mount_is_there_for_its_run_alone_and_a_cache_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "fix").mkdir()
    (tmp_path / "fix/a.sh").write_text("touch /x\n")
    text = "RUN --mount=type=bind,source=fix,target=/f --mount=type=cache,target=/var/cache/c sh /f/a.sh"
    (mod,) = adopted(tmp_path, f'{text}\nSHELL ["/bin/bash", "-euxo", "pipefail", "-c"]\nRUN echo a').mods
    assert list(mod.files) == ["mounts/2-1/f/a.sh"]
    rows = mod.script.splitlines()
    assert (
        rows.index("mkdir -p '/var/cache/c' && chmod 755 '/var/cache/c'")
        < rows.index("sh /f/a.sh")
        < rows.index("rm -rf '/f'")
    )
    assert "/bin/sh /dev/fd/9 9<<'END_OF_LINE_2'" in rows
    text = 'SHELL ["/bin/bash", "-euxo", "pipefail", "-c"]\nRUN touch /a'
    assert "/bin/bash -euxo pipefail /dev/fd/9" in adopted(tmp_path, text).mods[0].script


def test_owner_and_mode_of_a_copy_are_commands_of_a_mod(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    found = adopted(tmp_path, "COPY --link --chown=app:app --chmod=0640 a /etc/a\nCOPY --chown=0 --chmod=755 a /b")
    assert "chown 'app:app' '/etc/a'\nchmod '0640' '/etc/a'" in found.mods[0].script
    assert verdicts(found, "COPY") == [("mod", ""), ("mod", "")]
    assert "'/b'" not in found.mods[0].script


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ("", "a.log b/a.log b/c/d e"),
        ("# no rule\n*.log\n", "b/a.log b/c/d e"),
        ("**/*.log", "b/c/d e"),
        ("b\n!b/c", "a.log b/c/d e"),
        ("*\n!e", "e"),
        ("/b/c/\n./a.*\nb/../e", "b/a.log"),
        ("[a-b]*", "e"),
        ("b/**/d\n?", "a.log"),
        ("\ufeffa.log\r\n! a.log \r\n", "a.log b/a.log b/c/d e"),
    ],
)
def test_the_build_does_not_see_what_its_rules_leave_out(rules: str, left: str) -> None:
    names = ["a.log", "b/a.log", "b/c/d", "e"]
    found = read_rules(rules.encode(), ".dockerignore")
    assert [name for name in names if not is_left_out(name, found)] == left.split()


def test_rules_of_a_dockerfile_go_before_those_of_the_folder(tmp_path: Path) -> None:
    for name in ("a", "b", ".dockerignore"):
        (tmp_path / name).write_text("b")
    assert (
        line_of(adopted(tmp_path, "COPY b /b"), "COPY b").why
        == "b is not in the build context: .dockerignore leaves it out"
    )
    (tmp_path / "Dockerfile.dockerignore").write_text("*\n!b\n")
    found = adopted(tmp_path, "COPY b /b\nCOPY . /all/\nCOPY a /a")
    assert list(found.overlay) == ["/all/b", "/b"]
    assert line_of(found, "COPY a").verdict == "unchecked"
    (tmp_path / "empty").mkdir()
    assert "no file here" in line_of(adopted(tmp_path, "COPY empty /e"), "COPY empty").why


@pytest.mark.parametrize("rules", ["!", "[", "a\n" * 5000, "a" * (1 << 19)])
def test_rules_that_docker_refuses_are_one_error(tmp_path: Path, rules: str) -> None:
    (tmp_path / ".dockerignore").write_text(rules)
    with pytest.raises(UsageError, match="dockerignore"):
        adopted(tmp_path, "COPY a /a")
