"""What a RUN becomes: its commands in a mod end where they end in Docker, with the files that it alone has."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from gb10.errors import UsageError
from gb10.image.adopt import build_files
from gb10.image.adopt.adopting import Wanted, adopt
from gb10.image.adopt.shell import parse_commands
from tests.unit.image.test_adopt import BASE, adopted, library, line_of, verdicts

CLONE = "git clone https://h/src /tmp/src"
PARTS = "/tmp/src/x:/usr/lib"  # noqa: S108 - the second is the image's


@pytest.mark.parametrize(
    ("removal", "kept"),
    [
        ("rm -f '/srv/*' /tmp/src", "rm -f '/srv/*'"),
        ("rm -rf /tmp/src /srv/*", "rm -rf /srv/*"),
        ('rm -v -- /tmp/src "/srv/a b"', 'rm -v -- "/srv/a b"'),
        ("sudo rm -r /tmp/src /srv/[ab]?", "sudo rm -r /srv/[ab]?"),
    ],
)
def test_a_removal_keeps_its_options_and_the_words_as_written(tmp_path: Path, removal: str, kept: str) -> None:
    script = adopted(tmp_path, f"RUN touch /b && {CLONE} && {removal}").mods[0].script
    assert [line for line in script.splitlines() if "rm " in line] == [kept]


def put_aside(tmp_path: Path, mounts: str, before: Mapping[str, str]) -> str:
    """Run a mod whose mounts are below a folder, and say what the folder holds then."""
    root = tmp_path / "root"
    for name, text in before.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    seen = f"find {root} -type f -not -path '*gb10-aside*' | sort > {tmp_path}/seen"
    (mod,) = adopted(tmp_path, f"RUN {mounts.replace('=/', f'={root}/')} {seen}").mods
    (tmp_path / "mod").mkdir()
    for name, file in mod.files.items():
        (tmp_path / "mod" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mod" / name).write_bytes(file.content)
    (tmp_path / "mod/run.sh").write_text(mod.script)
    subprocess.run(["bash", str(tmp_path / "mod/run.sh")], check=True)
    after = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}
    assert after == before
    return (tmp_path / "seen").read_text().replace(f"{root}/", "")


@pytest.mark.parametrize(
    ("mounts", "seen"),
    [
        ("--mount=type=cache,target=/a --mount=type=cache,target=/a", "b/two\n"),
        ("--mount=type=cache,target=/a --mount=source=one,target=/a", "a/one\nb/two\n"),
        ("--mount=source=one,target=/a --mount=source=two,target=/a", "a/two\nb/two\n"),
        ("--mount=type=cache,target=/a/in --mount=source=one,target=/a", "a/one\nb/two\n"),
        ("--mount=source=two,target=/a/in --mount=source=one,target=/a", "a/in/two\na/one\nb/two\n"),
    ],
)
def test_mounts_of_one_place_or_in_each_other_put_back_what_was_there(tmp_path: Path, mounts: str, seen: str) -> None:
    assert put_aside(tmp_path, mounts, {"a/kept": "1", "a/in/kept": "2", "b/two": "3"}) == seen


@pytest.mark.parametrize(
    ("mount", "mode"),
    [
        ("type=tmpfs,target=/a", "1777"),
        ("type=cache,target=/a,mode=1777", "1777"),
        ("type=cache,target=/a,mode=0700", "700"),
        ("type=cache,target=/a", "755"),
    ],
)
def test_a_mounted_folder_has_the_mode_that_docker_gives_it(tmp_path: Path, mount: str, mode: str) -> None:
    root = tmp_path / "root"
    found = adopted(tmp_path, f"RUN --mount={mount.replace('=/', f'={root}/')} stat -c %a {root}/a > {tmp_path}/seen")
    script = f"umask 022\n{found.mods[0].script}"
    subprocess.run(["bash", "-s"], input=script, check=True, text=True)
    assert (tmp_path / "seen").read_text() == f"{mode}\n"


def test_a_mounted_folder_has_its_owner_and_a_mode_that_is_none_is_said(tmp_path: Path) -> None:
    script = adopted(tmp_path, "RUN --mount=type=cache,target=/a,uid=7,gid=8 use /a").mods[0].script
    assert "chown 7:8 '/a'" in script
    assert "chown 7:0 '/a'" in adopted(tmp_path, "RUN --mount=type=cache,target=/a,uid=7 use /a").mods[0].script
    for part in ("mode=rwx", "mode=7;x", "uid=me", "gid=$(id)"):
        (line,) = adopted(tmp_path, f"RUN --mount=type=cache,target=/a,{part} use /a").lines[1:]
        assert (line.verdict, line.why) == (
            "not-taken",
            "it works on what is not taken: a mount whose rights are not known here",
        )


def test_a_removal_takes_only_what_is_below_its_folder(tmp_path: Path) -> None:
    for name in ("lib/a", "lib2/b"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(name)
    head = "COPY lib /app/lib/\nCOPY lib2 /app/lib2/\n"
    assert [*adopted(tmp_path, f"{head}RUN rm -rf /app/lib").overlay] == ["/app/lib2/b"]
    assert [*adopted(tmp_path, f"{head}RUN rm -rf /app/lib/").overlay] == ["/app/lib2/b"]
    assert [*adopted(tmp_path, f"{head}RUN rm -rf /app/lib*").overlay] == []


def test_what_add_fetches_with_its_sha256_is_said_so(tmp_path: Path) -> None:
    line = line_of(adopted(tmp_path, f"ADD --checksum=sha256:{'a' * 64} https://h/x /x"), "ADD")
    assert (line.verdict, line.need) == ("not-taken", "download")
    assert "without" not in line.why


def test_mounts_share_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_files, "MOST_BYTES", 1000)
    (tmp_path / "big").mkdir()
    (tmp_path / "big/file").write_bytes(b"x" * 600)
    found = adopted(tmp_path, "\n".join(["RUN --mount=source=big,target=/big cp /big/file /x"] * 2) + "\nCOPY big /big")
    assert [(line.instruction, line.verdict) for line in found.lines[1:]] == [
        ("RUN", "mod"), ("RUN", "not-taken"), ("COPY", "mod"),
    ]  # fmt: skip
    assert "copies more than" in found.lines[2].why


@pytest.mark.parametrize(
    ("text", "status", "made"),
    [
        ("false; touch a", 0, "a"),
        ("false && touch a; touch b", 0, "b"),
        ("false; touch a && touch b && false", 1, "a b"),
        ("false; echo on", 0, ""),
        ("touch a && false && echo on", 1, "a"),
        ("set -e; false; touch a", 1, ""),
        ("cat <<E > a && false && touch b\nx\nE\ntouch c", 0, "a c"),
        ("cat <<E > a && touch b && false\nx\nE", 1, "a b"),
        ("false\ncat <<E > a\nx\nE\ntouch b", 0, "a b"),
        ("cd sub; touch a; X=1; touch b$X", 0, "sub/a sub/b1"),
        ("cd nowhere && touch a; touch b", 0, "b"),
        ("touch a; false || touch b; git clone https://h/a", 0, "a b"),
        ("for n in 1 2; do false; touch $n; done", 0, "1 2"),
    ],
)
def test_a_command_that_fails_ends_what_it_ends_in_docker(tmp_path: Path, text: str, status: int, made: str) -> None:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    plain = text.replace("git clone https://h/a", ":")
    ran = subprocess.run(["/bin/sh", "-c", plain], cwd=work, check=False, text=True)
    there = " ".join(sorted(str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()))
    assert (ran.returncode, there) == (status, made), "not what a shell does"
    for path in [path for path in work.rglob("*") if path.is_file()]:
        path.unlink()
    for form in (f"RUN <<END\n{text}\nEND", *([f"RUN {text}"] if "\n" not in text else [])):
        found = adopted(tmp_path, f"WORKDIR {work}\n{form}")
        if not found.mods:
            assert not made
            continue
        ran = subprocess.run(["bash", "-s"], input=found.mods[0].script, cwd=work, check=False, text=True)
        there = " ".join(sorted(str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()))
        assert (ran.returncode, there) == (status, made), found.mods[0].script


def test_a_command_in_the_background_stays_one(tmp_path: Path) -> None:
    found = adopted(tmp_path, "RUN serve & sleep 5 && use it")
    assert "serve &" in found.mods[0].script


@pytest.mark.parametrize(
    ("shell", "start"),
    [
        ('["/bin/bash", "-c", "-e"]', "/bin/bash -e /dev/fd/9"),
        ('["/bin/bash", "-ec"]', "/bin/bash -e /dev/fd/9"),
        ('["bash", "-o", "pipefail", "-xc"]', "bash -o pipefail -x /dev/fd/9"),
        ('["/bin/bash"]', ""),
        ('["/bin/bash", "-c", "exec"]', ""),
        ('["/bin/bash", "--rcfile", "-c"]', ""),
    ],
)
def test_the_shell_of_the_commands_is_started_as_it_is_named(tmp_path: Path, shell: str, start: str) -> None:
    found = adopted(tmp_path, f"SHELL {shell}\nRUN touch /a")
    assert verdicts(found) == [("mod" if start else "not-taken", "")]
    assert not start or f"{start} 9<<'END_OF_LINE_3'" in found.mods[0].script.splitlines()


def test_mode_and_owner_are_read_as_docker_reads_them(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    head = "ARG MODE=750\nARG WHO=app\nARG NONE\n"
    script = adopted(tmp_path, f"{head}COPY --chmod=$MODE --chown=$WHO:${{WHO}} a /x/a").mods[0].script
    assert "chmod '750' '/x/a'" in script
    assert "app:app" in script
    for option in ("--chmod=$NONE", "--chown=$NONE", "--chown=app:$NONE", "--chown=${OTHER}"):
        line = line_of(adopted(tmp_path, f"{head}COPY {option} a /x/a"), "COPY")
        assert (line.verdict, line.need) == ("unchecked", "value")
        assert option.partition("=")[0] in line.why


@pytest.mark.parametrize("name", ["PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_FIND_LINKS"])
def test_an_index_that_a_variable_names_counts(tmp_path: Path, name: str) -> None:
    for text in (
        f"ENV {name}=https://download.pytorch.org/whl\nRUN pip install x",
        f"RUN {name}=https://h/a pip install x",
    ):
        assert verdicts(adopted(tmp_path, text)) == [("not-taken", "index")]
    assert verdicts(adopted(tmp_path, f"ENV {name}=\nRUN pip install x")) == [("taken", "")]


LOST = "not-taken"
FOUND: list[tuple[str, list[tuple[str, str]]]] = [
    # what is fetched, by all ways to name it
    (
        "RUN curl -LSso /usr/local/bin/x https://h/y && chmod +x /usr/local/bin/x",
        [(LOST, "curl"), (LOST, "curl fetches")],
    ),
    (
        "RUN cd /srv && curl -LO https://h/x.sh?a=1 && bash x.sh",
        [("no-effect", ""), (LOST, "curl"), (LOST, "curl fetches")],
    ),
    (
        "WORKDIR /w\nRUN wget https://h/x.tar.gz && tar -xf x.tar.gz && mv x y && cd y && touch a && cd / && touch /b",
        [
            (LOST, "wget"),
            (LOST, "wget"),
            (LOST, "unpacked"),
            ("no-effect", "not taken"),
            (LOST, "unpacked"),
            ("mod", ""),
            ("mod", ""),
        ],
    ),
    (
        'RUN mkdir -p /var/e && for f in a b; do wget -q -O "/var/e/$f" https://h/$f; done && cp -a /var/e/. /srv/',
        [("mod", ""), (LOST, "wget"), (LOST, "wget fetches")],
    ),
    ('RUN sh -c "$(curl -fsSL https://h/install.sh)" "" -y', [(LOST, "a script of the web")]),
    ("RUN V=$(curl https://h/v) && touch /v$V && touch /w", [(LOST, "curl"), (LOST, "V is set by"), ("mod", "")]),
    ("WORKDIR /w\nRUN wget https://h/a.sh; . env/bin/activate", [(LOST, "wget"), (LOST, "reads a file")]),
    (
        "WORKDIR /w\nRUN N=x-$(uname -m); wget https://h/$N.tgz && tar -xzf $N.tgz && cp -r $N/* /srv/",
        [("no-effect", ""), (LOST, "wget"), (LOST, "unpacked"), (LOST, "unpacked")],
    ),
    (
        "RUN cd /w && curl -s https://h/list | cut -d: -f2 | wget -qi - && tar -xf x_*.tgz && mv x /usr/bin/x",
        [("no-effect", ""), (LOST, "curl"), (LOST, "unpacked"), (LOST, "unpacked")],
    ),
    (
        "RUN cd /w && xargs -n1 curl -O < /list; tar -xf x.tgz; touch /b",
        [("mod", ""), (LOST, "curl"), (LOST, "unpacked"), ("mod", "")],
    ),
    ("RUN cd /w && curl -s https://h/list | sort; tar -xf x.tgz", [("mod", ""), (LOST, "curl"), ("mod", "")]),
    (
        "WORKDIR /w\nRUN curl -L $(u) | gpg --dearmor > /etc/k.gpg; chgrp -R 0 /opt/x; cp new /usr/bin",
        [(LOST, "curl"), ("mod", ""), ("mod", "")],
    ),
    (
        "WORKDIR /w\nRUN curl -L $(u) -o $(n); cp new /usr/bin; curl $(n) https://h; touch b",
        [(LOST, "curl"), (LOST, "unpacked"), (LOST, "curl"), ("mod", "")],
    ),
    # what a command that is not taken names as its output
    (
        "RUN git clone https://h/a.git /a && python /a/make.py --output /opt/made && mv /opt/made /opt/used",
        [(LOST, ""), (LOST, "repository"), (LOST, "a command that is not taken")],
    ),
    (
        "RUN cmake -S /srv/x -B /srv/b -DCMAKE_INSTALL_PREFIX=/srv/p && cp /srv/b/y /srv/y; cp /srv/p/z /srv/z",
        [(LOST, "cmake"), (LOST, "a command"), (LOST, "a command")],
    ),
    ("RUN conda install -y rdkit", [(LOST, "its own channels")]),
    ("RUN nvcc -o /usr/lib/x.so /x.cu && chmod 644 /usr/lib/x.so", [(LOST, "nvcc"), (LOST, "a command")]),
    (
        "RUN pip install torch --index-url https://h/cu130\nRUN T=$(python3 -c 'import torch; print(torch.v)')"
        " && echo torch==$T > /o.txt && uv pip install ray --override /o.txt && touch /b",
        [
            (LOST, "https://h"),
            (LOST, "a package"),
            (LOST, "T is set by"),
            (LOST, "o.txt"),
            ("taken", "ray"),
            ("mod", ""),
        ],
    ),
    (
        "RUN pip install torch --index-url https://h/cu130\nRUN V=$(python3 -c 'import numpy; print(numpy.v)')"
        " && touch /b$V",
        [(LOST, "https://h"), ("mod", "beside"), ("mod", "")],
    ),
    (
        'RUN set -- "torch==$(x)" && pip install "$@" --index-url https://h/cu130\n'
        "RUN V=$(python3 -c \"import importlib.metadata as m; print(m.version('vision'))\") && touch /b$V",
        [("no-effect", ""), (LOST, "https://h"), (LOST, "a package"), (LOST, "V is set by")],
    ),
    # what needs a network says so
    ("RUN python -m spacy download en", [("mod", "with a network")]),
    ("RUN apt-key adv --fetch-keys http://h/k.pub", [("mod", "with a network")]),
    ("RUN add-apt-repository -y ppa:x/y", [("mod", "with a network")]),
    ("RUN echo download > /a", [("mod", "it runs in the image")]),
    ("RUN uv tool install x", [("mod", "with a network")]),
    ("RUN pipx install x", [("mod", "with a network")]),
    ("RUN dnf install -y x", [("mod", "with a network")]),
    ("RUN apk add --no-cache x", [("mod", "with a network")]),
    ("RUN gem install x", [("mod", "with a network")]),
    ("RUN snap install x", [("mod", "with a network")]),
    ("RUN poetry install --no-root", [("mod", "with a network")]),
    ('RUN bash -c "pip install x"', [("mod", "with a network")]),
    ("RUN bash -lc 'apt-get install -y x && touch /a'", [("mod", "with a network")]),
    ("RUN sh -ec 'curl -o /srv/x https://h/x'\nRUN sh /srv/x", [(LOST, "curl"), (LOST, "curl fetches")]),
    ("RUN sh -c 'git clone https://h/a.git /a'", [(LOST, "git fetches")]),
    ("RUN bash -c 'touch /a'", [("mod", "it runs in the image")]),
    ("RUN bash -c 'echo a'", [("no-effect", "")]),
    (
        "RUN python -c \"from huggingface_hub import snapshot_download; snapshot_download('a/b')\"",
        [("mod", "with a network")],
    ),
    ("RUN python3 - <<'E'\nimport nltk\nnltk.download('punkt')\nE", [("mod", "with a network")]),
    # what is unpacked takes from a folder of the base only what would be new there
    (
        "RUN wget -O /x.tgz https://h/x.tgz && tar -C /usr/local -xzf /x.tgz\n"
        "RUN sed -i s/a/b/ /usr/local/lib/python3.12/dist-packages/vllm/envs.py\n"
        "RUN ln -sf /usr/local/cuda/bin/nvcc /usr/bin/nvcc\nRUN cp /usr/local/go/bin/go /usr/bin/",
        [(LOST, "wget"), (LOST, "wget"), ("mod", ""), ("mod", ""), (LOST, "unpacked")],
    ),
    (
        "RUN wget -O /x.tgz https://h/x.tgz && tar -C /opt -xzf /x.tgz\nRUN cp /opt/m/lib.so /usr/lib/\n"
        "RUN mkdir -p /opt/mine && touch /opt/mine/a\nRUN chmod 600 /opt/mine/a",
        [(LOST, "wget"), (LOST, "wget"), (LOST, "unpacked"), ("mod", ""), ("mod", ""), ("mod", "")],
    ),
    ("RUN wget -P /tmp https://h/x.sh && sh /tmp/x.sh && touch /b", [(LOST, "wget"), (LOST, "wget"), ("mod", "")]),
    # what waits for a command behind & stays with it
    (
        "RUN cp a b & cp c d & wait && touch done",
        [("mod", ""), ("mod", ""), ("mod", "beside"), ("mod", "")],
    ),
    ("RUN serve & sleep 5; use it", [("mod", ""), ("mod", "beside"), ("mod", "")]),
    ("RUN serve & for p in 1 2; do wait $p; done", [("mod", ""), ("mod", "")]),
    ("RUN touch /a && sleep 5", [("mod", ""), ("no-effect", "")]),
    # what only seems to change nothing
    ("RUN git config --global color.ui true", [("mod", "")]),
    ("RUN git config --get color.ui", [("no-effect", "")]),
    ("RUN pip freeze > /tmp/c.txt", [("mod", "")]),
    (
        "RUN pip config set global.index-url https://h/simple\nRUN pip install x",
        [(LOST, "index"), (LOST, "https://h/simple")],
    ),
    ("RUN DS_BUILD=1 UV_LINK_MODE=copy pip install x", [("taken", "the lock does not set DS_BUILD")]),
    ("RUN command -v patch && touch /a", [("mod", "beside"), ("mod", "")]),
    # a program that is called by its name alone
    (
        "RUN curl -Lo /usr/bin/yq https://h/yq\nRUN yq -i . /etc/x && sudo yq a || touch /b\nRUN ./yq && touch /b",
        [(LOST, "curl"), (LOST, "curl fetches"), ("mod", ""), ("mod", "")],
    ),
    (
        "COPY --from=o /uv /uvx /bin/\nRUN uv pip install einops && uvx x && other y && command -v uv && touch /b",
        [("taken", "einops"), (LOST, "of the image o"), ("mod", ""), (LOST, "a check"), ("mod", "")],
    ),
    (
        "COPY --from=o /ROOT /\nRUN /venv/bin/python -m x\nRUN env-hash > /h\n"
        "WORKDIR /\nRUN sed -i s/a/b/ /bin/vllm && ls >b",
        [(LOST, "of the image o"), (LOST, "of the image o"), ("mod", ""), ("mod", "")],
    ),
    ("COPY --from=o /out/* /usr/local/bin/\nRUN env-hash && grep a /b", [(LOST, "of the image o"), ("no-effect", "")]),
    # what is removed, and what would take its place after that
    (
        "RUN rm -rf /opt/nvidia/x && git clone https://h/x /opt/nvidia/x && rm -rf /opt/nvidia/y/*",
        [(LOST, "its place"), (LOST, ""), ("mod", "")],
    ),
    ("RUN touch /b && rm -rf /workspace/x/*\nCOPY --from=o /x /workspace/x", [("mod", ""), (LOST, "its place")]),
    (
        "RUN rm -rf /usr/local/go && curl https://h/go | tar xz -C /usr/local",
        [(LOST, "its place"), (LOST, "curl")],
    ),
    ("RUN rm -rf /workspace/x\nCOPY none /workspace/x\nRUN rm -f /workspace/y", [(LOST, "its place"), ("mod", "")]),
    (
        "RUN pip uninstall -y torch_x\nRUN pip install torch-x -i https://h/s\nRUN pip uninstall -y b",
        [(LOST, "its place"), (LOST, "https://h/s"), ("mod", "")],
    ),
    (
        "RUN pip uninstall -y vllm\nRUN pip install https://h/vllm-1-py3-none-any.whl#x",
        [(LOST, "its place"), (LOST, "")],
    ),
    ("RUN pip uninstall -y vllm\nRUN pip install /w/vllm*.whl", [(LOST, "its place"), (LOST, "among the files")]),
    ("RUN rm -rf $(where x) && pip install x -i https://h/s", [(LOST, "its place"), (LOST, "https://h/s")]),
    ("RUN rm -rf $(where x) && pip install x", [("mod", ""), ("taken", "x")]),
    (
        "COPY --from=o /y /y\nRUN mv /usr/lib/x.so /usr/lib/z.so && ln -s /y/x.so /usr/lib/x.so && mv /etc/a /etc/b",
        [(LOST, "its place"), (LOST, "of the image o"), ("mod", "")],
    ),
    # what a package that is not taken, or an installer, would bring
    ("RUN pip install /w/*.whl\nRUN python3 -c \"import a; open('/b', 'w')\"", [(LOST, "among"), (LOST, "a package")]),
    (
        "RUN npm i -g x && touch /b\nRUN x --version && vllm -h",
        [(LOST, "npm"), ("mod", ""), (LOST, "npm"), ("mod", "")],
    ),
    (
        "RUN curl https://h/i.sh | sh\nRUN x serve || true\nRUN ./x && sort /b > /c",
        [(LOST, ""), (LOST, ""), ("mod", ""), ("mod", "")],
    ),
    ("RUN make\nRUN x --version", [(LOST, "make"), ("mod", "")]),
    (
        "RUN cargo install x && apt-get install -y jq && pip install ruff && jq . /a > /b && ruff /b && x"
        " && python3.12 /c && tar -xf /d",
        [
            (LOST, "cargo"),
            ("mod", ""),
            ("taken", ""),
            ("mod", ""),
            ("mod", ""),
            (LOST, "cargo"),
            ("mod", ""),
            ("mod", ""),
        ],
    ),
    # PyTorch's packages of another CUDA are another index, too
    ("RUN uv pip install --torch-backend=cu130 torchvision", [(LOST, "PyTorch's index for cu130")]),
    ("ENV UV_TORCH_BACKEND=cu128\nRUN uv pip install torch==2.9", [(LOST, "PyTorch's index for cu128")]),
    ("ENV UV_TORCH_BACKEND=cu128\nRUN pip install torch==2.9", [("taken", "torch==2.9")]),
    ("RUN uv pip install --torch-backend auto einops", [("taken", "--torch-backend auto: the lock takes torch")]),
]


@pytest.mark.parametrize(("text", "expected"), FOUND, ids=[text[:60] for text, _ in FOUND])
def test_what_was_wrong_without_a_word_in_further_dockerfiles(
    tmp_path: Path, text: str, expected: list[tuple[str, str]]
) -> None:
    lines = [line for line in adopted(tmp_path, text).lines if line.instruction == "RUN"]
    assert [line.verdict for line in lines] == [verdict for verdict, _ in expected], lines
    assert all(part in line.why for line, (_, part) in zip(lines, expected, strict=True)), lines


@pytest.mark.parametrize(
    ("change", "install"),
    [
        ("sed -i /torch/d /r.txt", "pip install -r /r.txt"),
        ("cd / && sed -i /torch/d r.txt", "pip install -r r.txt"),
        ("sed -i /torch/d /*.txt", "pip install -c /r.txt einops"),
        ("grep -v torch /r.txt > /s.txt", "pip install --requirement=/s.txt"),
        ("echo torch==2.9 > /o.txt", "uv pip install --override /o.txt einops"),
        ("if [ -e /x ]; then sed -i /torch/d /r.txt; fi", "PIP_CONSTRAINT=/r.txt pip install einops"),
    ],
)
def test_what_pip_reads_after_a_command_changed_it_is_not_the_copied_file(
    tmp_path: Path, change: str, install: str
) -> None:
    (tmp_path / "r.txt").write_text("torch==2.9\neinops\n")
    found = adopted(tmp_path, f"COPY r.txt /r.txt\nRUN {change} && {install}")
    assert not found.requirements
    assert not found.constraints
    assert found.mods[-1].network
    assert install in found.mods[-1].script


def test_a_file_that_is_only_read_stays_the_copied_one(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("einops\n")
    found = adopted(tmp_path, "COPY r.txt /r.txt\nRUN touch /b && cat /r.txt > /c && pip install -r /r.txt")
    assert found.requirements == ("einops",)


def test_a_requirements_file_names_others_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r/a.txt").write_text("-r b.txt\n-c sub/c.txt\n")
    (tmp_path / "r/b.txt").write_text("einops\n")
    (tmp_path / "r/sub").mkdir()
    (tmp_path / "r/sub/c.txt").write_text("numpy<2\n")
    found = adopted(tmp_path, "COPY r /opt/r\nWORKDIR /srv\nRUN pip install -r /opt/r/a.txt")
    assert (found.requirements, found.constraints) == (("einops",), ("numpy<2",))


@pytest.mark.parametrize(
    "setting", ["ENV PIP_CONSTRAINT=/c.txt\nRUN", "RUN export PIP_CONSTRAINT=/c.txt &&", "RUN PIP_CONSTRAINT=/c.txt"]
)
def test_constraints_that_a_variable_names_count(tmp_path: Path, setting: str) -> None:
    (tmp_path / "c.txt").write_text("numpy<2\n")
    found = adopted(tmp_path, f"COPY c.txt /c.txt\n{setting} pip install einops")
    assert (found.requirements, found.constraints) == (("einops",), ("numpy<2",))
    assert adopted(tmp_path, f"COPY c.txt /c.txt\n{setting} uv pip install einops").constraints == ()
    emptied = adopted(tmp_path, "ENV PIP_CONSTRAINT=/none.txt\nRUN PIP_CONSTRAINT= pip install einops")
    assert emptied.requirements == ("einops",)


@pytest.mark.parametrize("option", ["--index-url https://h/cu$(x)", "-i $NONE", "--extra-index-url=https://h/$(x)"])
def test_packages_of_an_index_that_is_not_known_are_not_taken(tmp_path: Path, option: str) -> None:
    found = adopted(tmp_path, f"RUN pip install torch==2.9.0 {option}")
    assert not found.requirements
    assert line_of(found, "pip").need == "index"


@pytest.mark.parametrize(
    "command",
    [
        "flashinfer download-cubin",
        "xargs -a /r.txt pip install",
        "cat /r.txt | xargs -n 1 python3 -m pip install",
        "python3 -c \"import subprocess as s; s.run(['pip', 'install', 'x'])\"",
        "<<E bash\npip install x\nE",
    ],
)
def test_what_needs_a_network_has_one(tmp_path: Path, command: str) -> None:
    (mod,) = adopted(tmp_path, f"RUN {command}").mods
    assert mod.network


@pytest.mark.parametrize(
    ("condition", "script"),
    [
        ('[ "$A" = "1" ]', "touch /no"),
        ('[ "$A" = "0" ]', "touch /yes && touch /y"),
        ("[[ $A == 1 ]]", "touch /no"),
        ('[ "$A" -lt 1 ] && [ -z "$E" ]', "touch /yes && touch /y"),
        ('! [ -n "$E" ] || [ "$A" != 0 ]', "touch /yes && touch /y"),
    ],
)
def test_a_condition_of_known_values_is_what_it_runs(tmp_path: Path, condition: str, script: str) -> None:
    run = f'ARG A=0\nARG E=""\nRUN if {condition}; then touch /yes && touch /y; else touch /no; fi'
    (mod,) = adopted(tmp_path, run).mods
    assert " ".join(line for line in mod.script.splitlines() if line.startswith("touch")) == script


@pytest.mark.parametrize(
    "condition", ['[ "$N" = 1 ]', "[ -f /x ]", '[ "$(x)" = 1 ]', "[ $E = 1 ]", "[[ $A == 0* ]]", "x", '[ "$A" = 0 ]; x']
)
def test_any_other_condition_stays_in_one_piece(tmp_path: Path, condition: str) -> None:
    text = f"if {condition}; then touch /yes; fi"
    assert [one.text for one in parse_commands(text, [1], {"A": "0", "E": ""})] == [text]


def test_what_a_condition_leaves_out_needs_no_network(tmp_path: Path) -> None:
    found = adopted(tmp_path, 'ARG A=0\nRUN touch /b && if [ "$A" = 1 ]; then pip install x; y; fi && touch /c')
    assert [line.verdict for line in found.lines][-3:] == ["mod", "no-effect", "mod"]
    assert not found.mods[0].network
    assert "touch /b &&\ntouch /c" in found.mods[0].script


def test_several_commands_of_a_condition_in_a_chain_stay_in_one_piece() -> None:
    for text in ('a && if [ "$A" = 0 ]; then b; c; fi', 'if [ "$A" = 0 ]; then b; c; fi && a'):
        assert len(parse_commands(text, [1], {"A": "0"})) == 2
    assert len(parse_commands('a; if [ "$A" = 0 ]; then b; c; fi; d', [1], {"A": "0"})) == 4


def test_a_variable_that_names_what_is_not_taken_is_not_taken(tmp_path: Path) -> None:
    before = adopted(tmp_path, f"ENV HERE=/tmp/src/x\nENV THERE=/srv/other\nRUN {CLONE}")
    assert [line.verdict for line in before.lines if line.instruction == "ENV"] == ["not-taken", "taken"]
    assert before.env == {"THERE": "/srv/other"}
    found = adopted(tmp_path, f"RUN {CLONE}\nENV HERE=/tmp/src/x\nENV PATHS={PARTS}\nRUN touch $HERE")
    lines = [line for line in found.lines if line.instruction == "ENV"]
    assert [line.verdict for line in lines] == ["not-taken", "taken"]
    assert "not taken" in lines[1].why
    assert found.env == {"PATHS": PARTS}


@pytest.mark.parametrize(
    "command", ["pip install x || true", "pip install x | tail -1", "for p in x; do uv pip install $p; done"]
)
def test_pip_in_one_piece_with_others_knows_the_python_that_it_installs_into(tmp_path: Path, command: str) -> None:
    found = adopted(tmp_path, f"RUN python3 -m venv /opt/v\nENV VIRTUAL_ENV=/opt/v\nENV A=/opt/v/lib\nRUN {command}")
    assert verdicts(found, "RUN") == [("not-taken", "base"), ("not-taken", "base")]
    assert not found.env


@pytest.mark.parametrize("install", ["-e .", "git+https://h/a/b@c", "./sub"])
def test_pip_in_one_piece_with_others_compiles_nothing(tmp_path: Path, install: str) -> None:
    found = adopted(tmp_path, f"RUN pip install {install} 2>&1 | tail -5")
    assert verdicts(found, "RUN") == [("not-taken", "wheel")]
    assert [wheel.url for wheel in found.wheels] == (["https://h/a/b"] if "git" in install else [])


def test_a_file_that_takes_the_place_of_one_that_is_removed_may_be_of_a_package(tmp_path: Path) -> None:
    library, link = "/usr/lib/aarch64-linux-gnu/libn.so.2", "/opt/nv/lib/libn.so.2"
    found = adopted(
        tmp_path,
        f"RUN --mount=from=b,target=/d cd /d && apt install ./*.deb\nRUN rm {link} && ln -s {library} {link}\n"
        f"RUN ln -s {library.replace('libn', 'other')} /srv/x\nRUN touch /srv/y",
    )
    assert [line.verdict for line in found.lines][-4:] == ["not-taken", "not-taken", "not-taken", "mod"]
    assert "its place" in line_of(found, "rm ").why


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("cp -r /tmp/src/include /usr/local/cuda/new", "ls /usr/local/cuda/new > /o"),
        ("cp /tmp/src/tool /usr/local/bin/", "/usr/local/bin/tool > /o"),
        ("cat /tmp/src/a > /etc/conf", "sed -i s/a/b/ /etc/conf"),
    ],
)
def test_what_a_command_that_is_not_taken_would_make_is_not_there(tmp_path: Path, made: str, used: str) -> None:
    found = adopted(tmp_path, f"RUN {CLONE}\nRUN {made}\nRUN {used}")
    assert verdicts(found, "RUN")[1:] == [("not-taken", "lost"), ("not-taken", "lost")]
    (tmp_path / "own").write_text("x")
    place = used.replace("/", " /", 1).split()[-1] if "sed" in used else "/etc/conf"
    again = adopted(tmp_path, f"RUN {CLONE}\nRUN cat /tmp/src/a > /etc/conf\nCOPY own {place}\nRUN touch {place}")
    assert [line.verdict for line in again.lines][-1] == "mod"


def test_a_script_of_a_command_that_is_not_taken_is_removed_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("x")
    found = adopted(
        tmp_path, f"RUN touch /b\nCOPY own.py /t/own.py\nRUN {CLONE} && python3 /t/own.py /tmp/src && rm /t/own.py"
    )
    assert line_of(found, "rm ").verdict == "mod"


OTHER_INDEX = "RUN pip install torch==2.9.0 flash_attn --index-url https://h/cu\n"


@pytest.mark.parametrize(
    "command",
    [
        'V=$(python3 -c "from torch import __version__ as v; print(v)")',
        """V=$(python3 -c 'import os, torch.cuda as c; print(c)')""",
        'export V="$(pip show torch | grep Version)"',
        """echo $(python3 -c "import torch; print(torch.__path__)") > /v""",
        """sed -i "s/a/$(python3 -c 'import torch; print(1)')/" /v""",
        "pip freeze > /v",
        "pip list | grep torch > /v",
        "python3 -c \"import os, flash_attn; open('/v', 'w').write(os.name)\"",
        "python3 -c \"import importlib.metadata as m; open('/v', 'w').write(m.version(\\\"flash-attn\\\"))\"",
        "python3 -m torch.utils.collect_env > /v",
        "python3 /own.py > /v",
        "python3 <<E\nfrom torch.version import cuda\nopen('/v', 'w').write(cuda)\nE",
        "[ $(python3 -c 'import torch; print(1)') = 1 ]",
    ],
)
def test_what_asks_a_package_of_another_index_is_not_taken(tmp_path: Path, command: str) -> None:
    (tmp_path / "own.py").write_text("import torch\nprint(torch.__version__)\n")
    found = adopted(tmp_path, f"{OTHER_INDEX}COPY own.py /own.py\nRUN {command}")
    assert verdicts(found)[1:] == [("not-taken", "lost")]
    assert not found.mods


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c \"import os, re; open('/v', 'w').write(os.name)\"",
        "python3 -c \"from a import torch; open('/v', 'w')\"",
        "pip show numpy > /v",
        "echo 'import torch' > /v$(date)",
        "pip uninstall -y a- b",
        "pip install -U pip -i https://h/s\nRUN pip uninstall -y b",
        "cat > /x.py <<E\nimport torch\nE",
    ],
)
def test_what_asks_no_package_of_another_index_runs(tmp_path: Path, command: str) -> None:
    assert verdicts(adopted(tmp_path, f"{OTHER_INDEX}RUN {command}"))[-1] == ("mod", "")


def test_a_package_that_is_not_known_may_be_any_but_one_of_python(tmp_path: Path) -> None:
    found = adopted(
        tmp_path,
        "RUN pip install $X -i https://h/s\nRUN python3 -c \"import a; open('/v', 'w')\"\n"
        "RUN python3 -c \"import json; open('/v', 'w')\"",
    )
    assert [verdict for verdict, _ in verdicts(found)] == ["not-taken", "not-taken", "mod"]


def test_a_command_before_what_its_variable_names_is_lost_with_it(tmp_path: Path) -> None:
    clone = "RUN git clone https://h/x /opt/lost"
    found = adopted(
        tmp_path,
        f"ENV SRC=/opt/lost\nENV CONF=/etc/mine\nRUN cp $SRC/a /etc/mine\nRUN touch $CONF\n"
        "RUN python3 -c \"import os; open(os.environ['SRC'] + '/b', 'w')\"\nRUN SRC=/b; touch $SRC/c\n"
        "RUN SRC=$SRC/c; touch $SRC\n"
        f"RUN cat > /d <<E\n$SRC\nE\nENV SRC=/srv\nRUN touch $SRC\n{clone}",
    )
    assert [line.verdict for line in found.lines if line.instruction == "ENV"] == ["not-taken", "not-taken", "taken"]
    taken = [line.text for line in found.lines if line.verdict == "mod"]
    assert taken == ["SRC=/b", "touch $SRC/c", "touch $SRC"]
    assert found.env == {"SRC": "/srv"}


@pytest.mark.parametrize("between", ["", "RUN git clone https://h/x /opt/lost\n"])
def test_each_line_of_a_variable_is_judged_by_its_own_value(tmp_path: Path, between: str) -> None:
    found = adopted(
        tmp_path,
        f"ENV X=/a\nRUN touch $X/b\n{between}ENV X=/opt/lost/x\nRUN touch $X\nRUN git clone https://h/x /opt/lost",
    )
    assert verdicts(found, "ENV") == [("taken", ""), ("not-taken", "lost")]
    assert found.env == {"X": "/a"}
    assert [line.text for line in found.lines if line.verdict == "mod"] == ["touch $X/b"]


def test_a_command_sees_the_variables_of_its_line(tmp_path: Path) -> None:
    """Run as a mod runs: with the variables that ENV gives at the end."""
    run = f"RUN sh -c 'echo \"$X ${{Y-none}} $Z $A\" >> {tmp_path}/seen'"
    found = adopted(
        tmp_path,
        f"ARG A=arg\nENV Z=z\n{run}\nENV X='it is \"a\"' Y=\n{run}\nARG A=other\nENV X=b TOKEN=abc\n{run}\nENV X=c",
    )
    assert dict(found.env) == {"X": "c", "Y": "", "Z": "z"}
    subprocess.run(["bash", "-s"], input=found.mods[0].script, check=True, text=True, env={**os.environ, **found.env})
    assert (tmp_path / "seen").read_text().splitlines() == [
        " none z arg", 'it is "a"  z arg', "b  z other",
    ]  # fmt: skip


def test_the_path_of_a_base_that_nobody_looked_at_is_not_unset(tmp_path: Path) -> None:
    found = adopted(tmp_path, "RUN touch /opt/one\nENV PATH=/usr/bin:/bin X=a")
    assert "-u X " in found.mods[0].script
    assert "-u PATH" not in found.mods[0].script


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/sh"])
def test_a_variable_that_bash_makes_readonly_has_its_value(tmp_path: Path, shell: str) -> None:
    found = adopted(tmp_path, f'SHELL ["{shell}", "-ec"]\nARG UID=1234\nRUN echo $UID > {tmp_path}/seen')
    subprocess.run(["bash", "-s"], input=found.mods[0].script, check=True, text=True)
    assert (tmp_path / "seen").read_text() == "1234\n"


def test_a_variable_of_the_base_that_changes_later_is_the_base_s(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {BASE}\nRUN touch /a\nENV PATH=/opt/x:$PATH\nRUN touch /b\n")
    found = adopt(library(tmp_path), Wanted(place=tmp_path), lambda _: {"PATH": "/bin", "LANG": "C"})
    assert found.env == {"PATH": "/opt/x:/bin"}
    assert [line for line in found.mods[0].script.splitlines() if "PATH" in line] == [
        "env PATH='/bin' /bin/sh /dev/fd/9 9<<'END_OF_LINE_2'"
    ]


def test_a_variable_names_no_folder_that_nothing_of_is_taken(tmp_path: Path) -> None:
    fetched = "RUN mkdir -p /enc && wget -O /enc/a https://h/a"
    assert verdicts(adopted(tmp_path, f"{fetched}\nENV E=/enc"), "ENV") == [("not-taken", "lost")]
    assert verdicts(adopted(tmp_path, f"ENV E=/enc/\n{fetched}"), "ENV") == [("not-taken", "lost")]
    for taken in (f"{fetched} && touch /enc/b", f"WORKDIR /enc\n{fetched}", fetched.replace("/enc", "/opt")):
        assert verdicts(adopted(tmp_path, f"{taken}\nENV E=/{'opt' if '/opt' in taken else 'enc'}"), "ENV") == [
            ("taken", "")
        ]


def test_variables_of_more_rounds_than_people_write_are_refused(tmp_path: Path) -> None:
    rounds = (f"ENV V{one}=/srv/{one + 1}/x\nRUN cp $V{one} /srv/{one}/x" for one in range(40))
    with pytest.raises(UsageError, match="too many"):
        adopted(tmp_path, "\n".join([*rounds, "RUN git clone https://h/x /srv/40/x"]))


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("cd /opt && nvcc -o tool a.cu", "mv /opt/tool /usr/bin/"),
        ("cd /opt/s && cmake -B build", "cp /opt/s/build/x /usr/bin/"),
        ("cd /opt/s && cmake -Bbuild .", "ln -s /opt/s/build/x /usr/bin/x"),
        ("cmake -DCMAKE_INSTALL_PREFIX:PATH=/opt/t .", "cp /opt/t/x /usr/bin/"),
        ("cmake -D CMAKE_INSTALL_PREFIX=/opt/t .", "cp /opt/t/x /usr/bin/"),
        ("make install DESTDIR=/opt/t", "cp /opt/t/x /usr/bin/"),
        ("DESTDIR=/opt/t ninja install", "cp /opt/t/x /usr/bin/"),
        ("export DESTDIR=/opt/t; make install", "cp /opt/t/x /usr/bin/"),
        ("cargo install --root /opt/t x", "cp /opt/t/bin/x /usr/bin/"),
        ("conda create -y -p /opt/t python", "ln -s /opt/t/bin/x /usr/bin/x"),
        ("cd /srv/d && aria2c https://h/x.bin", "mv /srv/d/x.bin /usr/bin/"),
        ("aria2c --dir=/srv/d --out=x https://h/y", "mv /srv/d/x /usr/bin/"),
        ("cd /srv/d && axel https://h/x.bin", "mv /srv/d/x.bin /usr/bin/"),
        ("cd /srv/d && curl -K list", "mv /srv/d/x.bin /usr/bin/"),
        ("scp h:/x /srv/d", "mv /srv/d/x.bin /usr/bin/"),
        ("cd /srv && (nvcc -o tool x.cu || exit 1)", "mv /srv/tool /usr/bin/"),
    ],
)
def test_what_a_compiler_or_a_fetcher_would_make_is_not_there(tmp_path: Path, made: str, used: str) -> None:
    assert verdicts(adopted(tmp_path, f"RUN {made}\nRUN {used}"))[-1] == ("not-taken", "lost")
    own = adopted(tmp_path, f"RUN {made}\nRUN touch /home/own && cp /home/own /usr/bin/")
    assert verdicts(own)[-2:] == [("mod", ""), ("mod", "")]


def test_what_is_compiled_without_a_name_is_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("x")
    found = adopted(
        tmp_path,
        "COPY own /srv/own\nRUN cd /srv && nvcc a.cu && mv a.out /usr/bin/ && cp own $(x) /usr/bin && cp own new"
        " && chmod 755 /b && ln -s /srv/own c",
    )
    assert [verdict for verdict, _ in verdicts(found)][1:] == ["not-taken"] * 3 + ["mod"] * 3
