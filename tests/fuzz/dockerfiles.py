"""Dockerfiles of others, and diffs of others on a release: as ``adopt`` and ``patches adopt`` read them."""

import datetime
import os
import random
from pathlib import Path
from typing import Final

import yaml
from packaging.version import Version

from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.image.adopt.adopted import Adopted
from gb10.image.adopt.adopting import Wanted, adopt, unchecked_error
from gb10.image.adopt.recipe_files import write_recipe
from gb10.image.mods.read import load_mod
from gb10.image.patches.hunks import DiffFate, Growing, judged_diff, series_files, series_troubles, write_series
from gb10.image.patches.release_files import Library
from gb10.image.patches.releases import load_releases
from gb10.image.patches.source_tree import Changed, open_tree
from gb10.image.plan.catalog import ROOT
from tests.fuzz import mutate

SITE: Final = b"/usr/local/lib/python3.12/dist-packages/vllm/"
DOCKERFILES: Final = (
    b"ARG BASE=vllm/vllm-openai:v0.30.0@sha256:" + b"a" * 64 + b"\n"
    b'FROM ${BASE} AS x\nARG V=1\nENV A=1 B="$A b" \\\n C=${V:-2}\n'
    b"COPY a.py b* " + SITE + b"\nCOPY 1.patch /tmp/\n"
    b"RUN cd " + SITE + b".. && git apply /tmp/1.patch && rm /tmp/1.patch\n"
    b'RUN pip install --no-cache-dir "x==${V}" y -r /tmp/req.txt && rm -rf /root/.cache\nCMD ["vllm", "serve"]\n',
    b"FROM a:b AS one\nRUN git clone -b v1 https://h/a.git /a && cd /a && git checkout 01234567 && pip install .\n"
    b"FROM one AS two\nRUN <<EOF\nset -e\nfor i in 1 2; do echo $i > /x; done\nEOF\n"
    b"FROM a:b\nCOPY --from=two /x /y/\nCOPY <<'E' <<F /d/\n1\nE\n$A\nF\n"
    b"RUN --mount=type=bind,from=one,source=/,target=/m python3 - <<'PY'\nimport os\nPY\n",
    b'FROM a:b\nSHELL ["/bin/bash", "-c"]\nWORKDIR /w\nRUN set -eux; curl -LsSf https://h/i.sh | sh; \\\n  # c\n'
    b'  if [ -f x ]; then apt-get install -y gcc=1; fi || true; sed -i "s/a/$B/" {a,b} $(ls) `x` <(y)\n'
    b"RUN apt-get update && apt-get install -y a \\\n\n b && apt-get clean\nADD https://h/x.tar.gz /z\n"
    b"LABEL a=b \"c d\"='e'\nUSER 1:2\nHEALTHCHECK --interval=5s CMD x\nONBUILD RUN y\nEXPOSE 80/tcp\n"
    b"VOLUME /v\nENV HF_TOKEN=x\nNONSENSE\n",
    b"FROM a:b\nCOPY --link --chown=a:b --chmod=0640 a.py /a/\nRUN uv venv /v && . /v/bin/activate && pip install x\n"
    b"RUN --mount=type=bind,source=.,target=/m --mount=type=cache,target=/c --mount=type=secret,id=s,env=T "
    b"sh /m/b.sh >=1 two && rm -rf /tmp/* /c\nUSER 7\nRUN git init && apt-get autoremove -y && rm -rf /usr/x\n",
)
TOKENS: Final = (
    *(b"FROM ", b"\nRUN ", b"\nCOPY ", b"\nENV ", b"\nARG ", b" AS ", b"--from=", b"--mount=type=bind,target=/"),
    *(b"<<EOF\n", b"\nEOF\n", b"\\\n", b"# c\n", b"$A", b"${A:-${B}}", b"${", b"`", b"$(", b")", b"((", b"{", b"}"),
    *(b"'", b'"', b"|", b"&&", b";", b"||", b"\0", b"\r\n", b"\xff", b"../", b"/etc/passwd", b"*", b"[", b"link"),
    *(b"~", b"https://[", b"git+", b"@sha256:", b"-r /tmp/req.txt", b"rm -rf /", b"(" * 300, b"{" * 300, b"a" * 5000),
    *(b"$(" * 200, b"\xe2\x80\xae", b"\x1b[", b"case x in a) ;; esac", b"while :; do", b"f() {", b"exit 1"),
    *(b"tar -C /x", b"cp -a . /", b"pip uninstall -y x", b"COPY --from=o / /\n"),
    *(b"COPY --parents --exclude=*/a **/. /\n", b"b-*"),
)
DIFF: Final = (
    b"--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -1,3 +1,3 @@\n a1\n-b1\n+b2\n c1\n@@ -8,3 +8,4 @@\n h1\n i1\n+new\n j1\n"
)


def read_dockerfile(data: bytes, room: Path) -> None:
    """A Dockerfile in a folder with files, links and a pipe: adopted, written, and read again."""
    theirs = room / "theirs"
    theirs.mkdir()
    (theirs / "Dockerfile").write_bytes(data)
    for name in ("a.py", "b.py", "1.patch", "req.txt"):
        (theirs / name).write_bytes(DIFF if name == "1.patch" else b"numpy==2.0\n-r req.txt\n")
    (theirs / "link").symlink_to("/etc/passwd")
    os.mkfifo(theirs / "pipe")
    library = Library(root=ROOT / "patches", store=Store(room / "s"), env={}, reporter=Reporter({}, verbosity=-1))
    found = adopt(library, Wanted(place=theirs, arguments={"B": "b"}))
    unchecked_error(found, theirs)
    _hold(found, data)
    if found.base:
        made = write_recipe(room / "made.yaml", found, "Dockerfile")
        recipe = yaml.safe_load(made.recipe.read_text(encoding="utf-8"))
        assert recipe["base"] == {"image": found.base}
        assert tuple(recipe.get("requirements", ())) == found.requirements
        assert recipe.get("env", {}) == dict(found.env)
        for mod in made.mods:
            load_mod(mod)


def _hold(found: Adopted, data: bytes) -> None:
    """What holds for each: every line has a verdict and a reason, and no file of outside is taken."""
    assert all(line.why and 1 <= line.first <= line.last <= data.count(b"\n") + 2 for line in found.lines)
    assert sum(found.counts.values()) >= 1
    assert not any(b"root:" in file.content for file in found.overlay.values())


def read_hunks(data: bytes, room: Path) -> None:
    """A diff on a release that has some of what it changes, and its series."""
    tree = Changed(open_tree(room), {"vllm/a.py": b"".join(b"%c1\n" % sign for sign in range(97, 117))})
    (room / "x.patch").write_bytes(data)
    fates = judged_diff(
        room / "x.patch", load_releases(ROOT / "patches"), {"vllm": Version("0.33.0")}, {"vllm": Growing(tree)}
    )
    assert all(isinstance(fate, DiffFate) for fate in fates)
    series_troubles(fates)
    write_series(series_files(fates, datetime.date(2026, 1, 1)), room / "out")


def some_dockerfile(rng: random.Random) -> bytes:
    """A Dockerfile with other bytes."""
    return mutate.of_bytes(rng, DOCKERFILES, TOKENS)
