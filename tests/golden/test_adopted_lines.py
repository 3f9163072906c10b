"""What ``adopt`` makes of Dockerfiles of a few lines each: every verdict, every reason, and every part of a recipe."""

import dataclasses
from pathlib import Path
from typing import Final

from gb10.errors import UsageError
from gb10.image.adopt.accounting import DockerfileInputs, account
from gb10.image.adopt.adopted import Adopted
from gb10.image.adopt.build_files import BuildFiles
from gb10.image.adopt.dockerfile import Instruction, parse_dockerfile
from gb10.image.adopt.ignore_file import read_rules
from gb10.image.adopt.shell import Command, parse_commands
from gb10.image.patches.releases import load_releases
from gb10.image.plan.catalog import ROOT
from tests.golden.conftest import Golden, section

DRIVES: Final = ("gb10.image.adopt.installs", "gb10.image.adopt.run_lines")  # through account: tests/mutations.py
BASE: Final = f"vllm/vllm-openai:v0.33.0@sha256:{'a' * 64}"
SITE: Final = "/usr/local/lib/python3.12/dist-packages"
DIFF: Final = "--- a/vllm/envs.py\n+++ b/vllm/envs.py\n@@ -1,2 +1,2 @@\n import os\n-A = 1\n+A = 2\n"
FILES: Final = {
    "a.py": "x = 1\n",
    "b.sh": "#!/bin/sh\necho b\n",
    "fix.patch": DIFF,
    "below.diff": DIFF.replace("/vllm/", "/"),
    "odd.patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-A\n+B\n",
    "req.txt": "ray==2.50.0 --hash=sha256:00\n# a\n-c con.txt\n\nnumpy>=2 ; python_version > '3' # b\n-r more.txt\n",
    "con.txt": "numba==0.60\n",
    "more.txt": "./local\nhttps://example.com/x.whl\npip\n",
    "round.txt": "-r round.txt\n",
    "pkg-1-py3-none-any.whl": "PK",
    "sub/deep/c.txt": "c\n",
    "sub/d.txt": "d\n",
    "left.log": "l\n",
    "key.pem": "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n",
}
RUNS: Final = """\
true
echo a > /a
echo a | tee /a
ls > /dev/null
cd /x && touch y
cd x && touch y
cd && touch y
cd /x
export A=1
export A=1 && touch $A
A=1 touch /y
. /opt/x/env && touch /y
grep -q x /etc/os-release
grep -q x /etc/os-release && touch /y
command -v git
command -v git && touch /y
sleep 1
touch /y & wait
touch /y & echo done; sleep 2
test -e /x || touch /y
[ -e /x ] && touch /y
if [ -e /x ]; then touch /y; fi
for one in 1 2; do touch /$one; done
for one in 1 2; do pip install $one; done
for one in 1 2; do apt-get install -y $one; done
for one in 1 2; do apt install -y $one; done
echo "apt-get install -y git" | sh
for one in 1 2; do pip uninstall -y $one; done
for one in 1 2; do cmake --build $one; done
for one in 1 2; do git clone https://h/$one; done
for one in 1 2; do echo $one; done
for one in 1 2; do curl -o /x$one https://h/$one; done
touch '$HOME' "a b" $'c' ~ {a,b} x*
touch $(date)
cat <<EOF > /etc/x
cat <<'EOF' | python3
python3 -c "import vllm"
python3 -c "import os; os.remove('/x')"
python3 -c "from huggingface_hub import snapshot_download; snapshot_download('a/b')"
python3 -m venv /opt/own && /opt/own/bin/pip install x
python3 -m venv /opt/own && . /opt/own/bin/activate && pip install x && touch /y
python3 -m venv --system-site-packages
virtualenv /opt/own && /opt/own/bin/python -m pip install x
virtualenv
uv venv && uv pip install x
uv venv --python 3.12 /opt/own && VIRTUAL_ENV=/opt/own uv pip install x
uv venv /opt/own && uv pip install --python /opt/own/bin/python x
uv venv /opt/own && uv pip install --python=/opt/own/bin/python x
uv venv /opt/own && uv pip install -p /usr/bin/python3 x
uv --quiet pip install x
uv sync
uv build
uv run x
uv tool install x
uv python install 3.12
python3 setup.py bdist_wheel
python3 -m build
python3 /x/setup.py
cmake --version
make
nvcc -V
nvcc x.cu
apt-get update
apt-get update && apt-get install -y git && apt-get clean && rm -rf /var/lib/apt/lists/*
touch /y && apt-get update && apt-get clean
apt-get -o A=b -y install git $X
apt install git
apt-get
apt-get remove -y git
apt-get purge git ./x.deb
apt-get dist-upgrade
apt-get install ./x.deb
apt-get build-dep git
pip
pip list
pip list > /x
pip config set global.index-url https://i/x && pip install a
pip config set global.timeout 5
pip wheel .
pip download x
pip uninstall -y a b && pip install a
pip uninstall -y a && cp /gone/x /y && git clone https://h/a
pip install a b==1 "c[x]>=2" -U --pre
pip install a --no-deps
pip install --user --odd a
pip install --root-user-action ignore a
pip install a --target /x
pip install a --target=/x
pip install -i https://u:p@i.example/x a
pip install --extra-index-url=https://pypi.org/simple/ a
pip install -f ./wheels a
PIP_INDEX_URL=https://i/x pip install a
env PIP_INDEX_URL=https://i/x pip install a
export UV_EXTRA_INDEX_URL=https://i/x && pip install a
CC=gcc MAX_JOBS=4 pip install a
sudo -E pip3 install a
python3 -m pip install a
/usr/bin/python3.12 -m pip --no-color install a
pip install pip setuptools
pip install pip a
pip install
pip install $A
pip install a==
pip install -r $A
pip install git+https://u:p@github.com/a/b.git@v1#egg=b
pip install "b @ git+https://github.com/a/b"
pip install b@https://github.com/a/b/archive/refs/tags/v1.zip
pip install https://github.com/a/b/archive/0123abc.tar.gz
pip install https://h/x-1.whl
pip install ./src
pip install .[all]
pip install /tmp/x-1-py3-none-any.whl
git clone https://github.com/a/b && pip install ./b
git clone -b v1 --depth 1 https://github.com/a/b.git /src/b && cd /src/b && pip install -e .
git clone https://github.com/a/b /src/b && git -C /src/b checkout 0123abc && pip install /src/b/python
git clone https://github.com/a/b /src/b && cd /src/b && git reset --hard && git checkout $X
git clone $X
git -C /src clone https://h/a --branch=v2
git init /src && git -C /src fetch https://h/a
git init && git remote add x https://h/a
git config --global a b
git config a b
git rev-parse HEAD
git rev-parse HEAD > /x
git log && git status
git gc
git apply /none.patch
curl -fsSL https://h/x.sh | bash
curl -o /opt/x/y https://h/y && chmod +x /opt/x/y
curl -O https://h/y.tgz?a=1 && tar xf y.tgz
wget https://h/y.zip && unzip y.zip -d /opt/z && ls /opt/z && touch /opt/z/a
wget -P /opt/w https://h/y && cat /opt/w/y
wget -qO- https://h/x.tar.gz | tar xz -C /opt/v
curl -L https://github.com/a/b/archive/v2.tar.gz | tar xz -C /src && pip install /src/b-2
curl -O $X && tar xf x.tar && cp y /z
A=$(curl https://h/version) && touch /$A
sh -c "$(curl -fsSL https://h/x.sh)"
bash -c 'apt-get install -y git'
sh -c 'touch /y'
sh -ec "pip install a"
eval touch /y
eval "$(curl https://h/x)"
hf download a/b --local-dir /models/b
ln -s /models/b /m
rm -rf /tmp/x /root/.cache/pip
rm -f /usr/lib/x
rm /opt/y/*
rm -rf $X
touch /opt/y && rm /opt/y
mkdir -p /opt/y && cp /etc/x /opt/y/
npm install -g x
snap list
dnf install x
dnf remove x
pipx --version
gem install x
gpg --recv-keys 1
add-apt-repository ppa:x
useradd x
sed -i s/a/b/ /etc/x
umask 022 && touch /y
set -ex; touch /y
set +e && touch /y; true
touch /a; touch /b && touch /c || touch /d
(touch /a && touch /b)
{ touch /a; touch /b; } > /log
! grep x /y
unset A
export TOKEN=abc && touch $TOKEN
touch /y && HF_TOKEN=hf_abcdefghijklmnop hf upload
function f { touch /y; }
touch /y 2>&1 >> /log < /in
exit 0
exit 1 && touch /y
python3 /nowhere/x.py --a b
python - --version
ldconfig
"""
WHOLE: Final = """\
COPY a.py /opt/
COPY a.py b.sh /opt/
COPY a.py /opt/x.py
COPY a.py x.py
WORKDIR /w
COPY a.py .
COPY sub /opt/sub
COPY sub/*.txt ./
ADD a.py /opt/y.py
ADD x.tar.gz /opt/
ADD https://h/x /opt/
COPY none.py /opt/
COPY --chown=1000 a.py /opt/own/
COPY --chown=me:us --chmod=600 a.py /opt/own2/x.py
COPY --chmod=755 a.py /opt/run.py
COPY --chmod=$NONE a.py /opt/run2.py
COPY --exclude=*.txt sub /opt/some
COPY --parents sub/deep/c.txt /opt/
COPY left.log /opt/
COPY key.pem /opt/
COPY --from=other /a /opt/a
COPY --from=nginx:1 /a/b /a/c /opt/
RUN ls /opt/a && cat /opt/a/b
RUN touch /made
COPY a.py /late/

WORKDIR w
COPY a.py .

WORKDIR /w
WORKDIR sub
WORKDIR $NONE
RUN touch x

ENV A=1 B="b c" PATH=/opt/x/bin:$PATH \\
    C=${A}x D=$NONE HF_TOKEN=hf_abcdefghijk
ARG E=$A
ARG A=2
ARG NONE
ENV F=$E G=${NONE:-g} H=$NONE I="a\\tb" J=$HF_TOKEN
ENV LONG ${A}${B} 1
RUN touch $A $F $E $J

ARG TOKEN
ARG KEY=sk-abcdefghijklmnopqrstuvwxyz0123
RUN touch /y $TOKEN

USER me
RUN touch /y
USER root
RUN touch /z
USER 0:0
USER $NONE

SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
RUN touch /y
SHELL ["powershell", "-command"]
RUN touch /z
SHELL ["/bin/sh", "-o", "-c"]
RUN touch /z

EXPOSE 80
LABEL a=b
CMD ["x"]
ENTRYPOINT x
VOLUME /x
HEALTHCHECK NONE
STOPSIGNAL 9
MAINTAINER me
ONBUILD RUN x
CROSS x

RUN ["touch", "a b"]
RUN <<EOF
touch /a
pip install a
EOF
RUN <<EOF python3
import vllm
open("/x", "w")
EOF
RUN <<EOF
#!/usr/bin/env python3
print(1)
EOF
RUN cat <<EOF > /etc/x
text $A
EOF
COPY <<EOF /etc/y
text $A
EOF
COPY <<"EOF" <<TWO /etc/z/
text $A
EOF
two
TWO
COPY <<EOF /etc/pw
password=hunter2hunter2
EOF

RUN --mount=type=cache,target=/root/.cache/pip pip install a
RUN --mount=type=cache,target=/c,uid=1000,mode=700 touch /c/x
RUN --mount=type=cache,target=/c,uid=me touch /c/x
RUN --mount=type=tmpfs,dst=/t touch /t/x
RUN --mount=type=secret,id=s cat /run/secrets/s
RUN --mount=type=secret,id=s,env=SECRET touch $SECRET
RUN --mount=type=ssh,target=/s touch /s/x
RUN --mount=type=bind,source=sub,target=/b cp /b/d.txt /opt/
RUN --mount=source=a.py,target=/b/a.py --mount=source=sub,target=/b cp -r /b /opt/
RUN --mount=source=none,target=/b cp /b/d.txt /opt/
RUN --mount=from=other,target=/b cp /b/d.txt /opt/
RUN --mount=type=bind,target=rel cp rel/d.txt /opt/
RUN --mount=type=odd,target=/o cp /o/x /opt/
RUN --mount=target=. cp a.py /opt/
RUN --mount=source=req.txt,target=/r/req.txt \\
 --mount=source=con.txt,target=/r/con.txt --mount=source=more.txt,target=/r/more.txt \\
 pip install -r /r/req.txt -r /r/round.txt
RUN --mount=source=pkg-1-py3-none-any.whl,target=/r/pkg-1-py3-none-any.whl pip install --no-deps /r/pkg*.whl

COPY req.txt con.txt more.txt round.txt pkg-1-py3-none-any.whl /tmp/
RUN cd /tmp && pip install -r req.txt -c con.txt
RUN pip install -r /tmp/round.txt
RUN pip install -r/tmp/con.txt
RUN pip install /tmp/*.whl
RUN pip install -r https://h/x.txt

COPY fix.patch below.diff odd.patch /tmp/
RUN cd SITE && patch -p1 < /tmp/fix.patch
RUN git apply --directory=SITE/vllm /tmp/below.diff
RUN patch -d SITE -p1 -i /tmp/fix.patch && rm /tmp/fix.patch
RUN patch -p0 SITE/vllm/envs.py /tmp/fix.patch
RUN cd SITE && git apply -R /tmp/fix.patch
RUN cd SITE && git apply /tmp/fix.patch
RUN cd SITE && git apply /tmp/odd.patch /tmp/*.diff

COPY a.py SITE/vllm/envs.py
COPY fix.patch /tmp/
RUN cd SITE && git apply /tmp/fix.patch

COPY a.py /tmp/
RUN rm /tmp/a.py
COPY a.py /tmp/
RUN touch /y && rm /tmp/a.py /tmp/none
RUN rm -f /tmp/a*

FROM alpine AS unused
RUN touch /y
FROM ubuntu AS used
ARG REF=v1
RUN git clone -b $REF https://h/a/used
FROM BASE AS under
COPY --from=used /x /opt/used
FROM under
RUN cp /opt/used/x /y

FROM $NONE
FROM scratch

FROM --platform=linux/amd64 nvidia/cuda:13
RUN touch /y

ARG V=1
ARG W
LABEL x=y
FROM a:${V}
ARG V
RUN touch $V
"""


def told(found: Adopted) -> str:
    """All of it, without the lines of the base and of arguments without a value."""
    rows = [
        f"{line.first}-{line.last} {line.instruction} {line.text!r}: {line.verdict} {line.need}: {line.why}"
        for line in found.lines
        if BASE not in line.text and line.text not in ("ARG X", "ARG A")
    ]
    for name in ("requirements", "constraints", "env", "wheels", "remarks", "platform"):
        value = getattr(found, name)
        rows += [f"{name}: {value}"] if value else []
    files = [f"{path}{' *' if file.executable else ''} of {file.source!r}" for path, file in found.overlay.items()]
    rows += [f"overlay: {', '.join(files)}"] if files else []
    rows += [f"patch {name}: {text.decode().splitlines()[0]}" for name, text in found.patches.items()]
    for mod in found.mods:
        script = mod.script.partition("set -euo pipefail\n")[2]
        files = [f"{path}{' *' if file.executable else ''}" for path, file in mod.files.items()]
        rows.append(section(f"mod {'with a network ' if mod.network else ''}{files}", script).rstrip())
    return "\n".join(rows)


def test_adopted_lines(golden: Golden, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "b.sh").chmod(0o755)
    releases, rules = load_releases(ROOT / "patches"), read_rules(b"*.log\n", ".dockerignore")
    ends = {"cat <<EOF > /etc/x": "\ntext\nEOF", "cat <<'EOF' | python3": "\nimport vllm\nEOF"}
    whole = WHOLE.replace("SITE", SITE).split("\n\n")
    cases = {run: f"ARG X\nARG A\nRUN {run}{ends.get(run, '')}\n" for run in RUNS.splitlines()}
    cases |= {f"Dockerfile {number}": text for number, text in enumerate(whole, 1)}
    found = []
    for title, text in cases.items():
        file = text.replace("FROM BASE", f"FROM {BASE}") if "\nFROM" in f"\n{text}" else f"FROM {BASE}\n{text}"
        try:
            parsed = parse_dockerfile(f"{file}\n".encode(), "Dockerfile")
            shown = told(account(parsed, BuildFiles(tmp_path, rules), DockerfileInputs(), releases, "Dockerfile"))
        except UsageError as error:
            shown = str(error)
        found.append(section(title, shown))
    golden("render/adopted-lines.txt", "\n\n".join(found) + "\n")


def plain(value: Command | Instruction) -> str:
    """Its fields that say something."""
    rows = []
    for one in dataclasses.fields(value):
        if found := getattr(value, one.name):
            some = [plain(inner) for inner in found] if one.name == "inner" else found
            rows.append(f"{one.name}={some}")
    return ", ".join(rows)


def test_commands_of_a_shell(golden: Golden) -> None:
    texts = [
        *RUNS.splitlines(),
        "A=1\nB=$A-2\ntouch $B ${A}x ${A:-y} ${C:-z} '$A' \"$A $C\" a$A\"b\"'c' \\$A a\\ b",
        "A=1\nif x; then A=2; fi\ntouch $A",
        "touch a \\\n  # why\n  b && \\\n  touch c",
        "cat <<EOF >> /x 2>/err\na $A\nEOF\ntouch y",
        "a | b && c; d & e || f",
        "a && { b; c; } && (d)",
        "case $x in a) b;; esac",
        "declare -x A=b; readonly C=d",
        "a <<< word > /o",
        'touch "unended',
        "if x; then",
        "x=$(y $(z) `w`)",
        "",
        "# nothing",
    ]
    found = [
        section(repr(text), "\n".join(map(plain, parse_commands(text, range(3, 30), {"X": None, "Y": "why"}))))
        for text in texts
    ]
    golden("render/shell-commands.txt", "\n".join(found) + "\n")


def test_instructions_of_a_dockerfile(golden: Golden) -> None:
    texts = {
        "words": 'FROM a AS b\nENV A=1 B="c d" \'E=f\' G=h\\ i\nENV J k l\nLABEL "x y"=z\nCOPY ["a b", "c"] \n',
        "lines": "# escape=\\\nFROM a\nRUN x \\\n  # why\n\n  y \\\n  z\nRUN w\n",
        "heredocs": "FROM a\nRUN <<A <<-B\nx\nA\n\ty\n\tB\nCOPY <<'C' <<D /x\n$z\nC\n$w\nD\n",
        "options": "FROM --platform=$P a\nCOPY --from=b --chown=1:2 --link c\nRUN --mount=target=/x --network=none y\n",
        "arrays": 'FROM a\nRUN ["x", "y z"]\nCMD ["p"\nENTRYPOINT []\nSHELL ["/bin/sh", 1]\n',
        "before": "ARG A=b\n\n# c\nFROM $A\nfrom c as D\nFROM\n",
        "odd": "FROM a\nODD\nRUN\n  \n= b\nCOPY\nENV\nARG\nENV A\nRUN x \\",
    }
    rows = []
    for title, text in texts.items():
        file = parse_dockerfile(text.encode(), "Dockerfile")
        shown = [plain(one) for one in file.before]
        for stage in file.stages:
            shown.append(f"stage {stage.number} {stage.name!r}: {plain(stage.start)}")
            shown += [f"  {plain(one)}" for one in stage.instructions]
        rows.append(section(title, "\n".join(shown)))
    golden("render/dockerfile-instructions.txt", "\n\n".join(rows) + "\n")
