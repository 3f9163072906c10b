"""What ``adopt`` prints and writes for a Dockerfile that has a line of most kinds."""

from pathlib import Path

import pytest

from gb10.cli import main
from tests.golden.conftest import Golden, section

DOCKERFILE = f"""\
# syntax=docker/dockerfile:1
ARG BASE=vllm/vllm-openai:glm53-flash@sha256:{"9" * 64}
FROM alpine AS notes
RUN touch /notes
FROM ${{BASE}} AS proxy
COPY proxy.c /src/
RUN gcc -shared -o /proxy.so /src/proxy.c
FROM ${{BASE}}

ARG SITE=/usr/local/lib/python3.12/dist-packages/vllm
ARG TAG
LABEL org.opencontainers.image.title="theirs ${{TAG}}"
ENV VLLM_PLUGINS=exl3 \\
    HF_TOKEN=hf_not-a-token
COPY fix.patch requirements.txt /tmp/
COPY exl3.py ${{SITE}}/model_executor/layers/quantization/exl3.py
RUN cd ${{SITE}}/.. && git apply /tmp/fix.patch && rm /tmp/fix.patch
RUN apt-get update && apt-get install -y --no-install-recommends git \\
 && pip install --no-cache-dir -r /tmp/requirements.txt \\
 # the kernels
 && git clone https://github.com/turboderp-org/exllamav3.git /opt/exllamav3 \\
 && git -C /opt/exllamav3 checkout 5be886578ec80324c2c715269387be2058724b6e \\
 && pip install --no-deps /opt/exllamav3 \\
 && python3 -c "import exllamav3" \\
 && rm -rf /opt/exllamav3 /var/lib/apt/lists/*
RUN sed -i 's/major >= 9/major in (9, 10)/' ${{SITE}}/platforms/cuda.py
COPY --from=proxy /proxy.so /opt/proxy.so
COPY absent.py /opt/
RUN curl -LsSf https://astral.sh/uv/install.sh | sh
USER 1000
ENTRYPOINT ["vllm", "serve"]
"""
DIFF = "--- a/vllm/envs.py\n+++ b/vllm/envs.py\n@@ -1,2 +1,2 @@\n import os\n-A = 1\n+A = 2\n"


def test_what_adopt_prints_and_writes(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "s"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / "theirs").mkdir()
    monkeypatch.chdir(tmp_path)
    files = {"Dockerfile": DOCKERFILE, "fix.patch": DIFF, "requirements.txt": "ray==2.50.0 --hash=sha256:00\n"}
    for name, text in {**files, "exl3.py": "x = 1\n", "proxy.c": "int x;\n"}.items():
        (tmp_path / "theirs" / name).write_text(text)
    assert main(["adopt", "theirs"]) == 13
    printed = capsys.readouterr()
    made = [tmp_path / "adopted-theirs.yaml", *sorted((tmp_path / "adopted-theirs").rglob("*"))]
    texts = [(str(path.relative_to(tmp_path)), path.read_text()) for path in made if path.is_file()]
    golden(
        "cli/adopt.txt",
        "\n".join(section(title, text) for title, text in [("printed", printed.out + printed.err), *texts]),
    )
