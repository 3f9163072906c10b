"""The check ``secrets``: files and variables that hold one. The samples are put together here: none lies about."""

from pathlib import Path

import pytest

from gb10.image.proof.checks.secrets import CHECK
from gb10.inside.scan.hazards import LARGEST, of_content
from gb10.inside.scan.scan import Scan, scan_tree, scanned_tree
from tests.unit.made_up_images import image

SAMPLES = {
    "a private key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEA" * 4 + "\n",
    "a token of the Hugging Face Hub": "hf_" + "aB" * 17,
    "a token of GitHub": "gh" + "p_" + "a1" * 18,
    "a token of GitLab": "glpat" + "-" + "x" * 20,
    "a token of the package index": "pypi-" + "AgEIcHlwaS5vcmc" + "x" * 60,
    "a token of NGC": "nvapi" + "-" + "x" * 64,
    "a key of AWS": "AKIA" + "ABCDEFGH12345678",
    "a key of OpenAI or Anthropic": "sk-" + "ant-" + "x" * 50,
}


@pytest.mark.parametrize("what", SAMPLES)
def test_a_form_that_tells_itself(what: str) -> None:
    text = f"x = '{SAMPLES[what]}'\n".encode()
    assert [one.what for one in of_content(text, "x")] == [what]
    assert [*of_content(text[: len(text) // 2], "x")] == []


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (".netrc", "machine h login me password " + "x1", True),
        (".netrc", "machine h login me", False),
        ("etc/pip.conf", "[global]\nindex-url = https://me:" + "pw@h/simple", True),
        ("etc/pip.conf", "[global]\nindex-url = https://h/simple", False),
        ("root/.docker/config.json", '{"auths": {"h": {"auth": "' + "bWU6cHc=" + '"}}}', True),
        ("model/config.json", '{"auth": "' + "bWU6cHc=" + '"}', False),
        ("root/.aws/credentials", "aws_secret_access_key = " + "x", True),
    ],
)
def test_a_file_by_its_name(tmp_path: Path, name: str, text: str, found: bool) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text, encoding="ascii")
    assert [one.path for one in scan_tree(tmp_path).hazards] == ([name] if found else [])


def test_texts_are_searched_in_what_was_changed_by_hand_and_in_whole_images(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"export HF_TOKEN={SAMPLES['a token of the Hugging Face Hub']}\n")
    (tmp_path / "large").write_bytes(SAMPLES["a key of AWS"].encode() + bytes(LARGEST))
    assert scan_tree(tmp_path).hazards == ()
    for kind in ("change", "image"):
        found = scanned_tree(tmp_path, kind).scanned().hazards
        assert [(one.path, one.what) for one in found] == [("run.sh", "a token of the Hugging Face Hub")]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("HF_TOKEN=" + SAMPLES["a token of the Hugging Face Hub"], "a token of the Hugging Face Hub"),
        ("HF_TOKEN=", ""),
        ("HF_TOKEN_PATH=/run/token", ""),
        ("MY_PASSWORD=swordfish", "a value that everybody can read"),
        ("API_KEY=$KEY", ""),
        ("TOKENIZERS_PARALLELISM=false", ""),
        ("PATH=/usr/bin", ""),
    ],
)
def test_the_environment_of_an_image(entry: str, told: str) -> None:
    found = CHECK.judge(image(scan=Scan(root="i"), environment=(entry,)))
    assert [problem.found for problem in found] == ([told] if told else [])
    assert not any(entry.partition("=")[2] in str(problem) for problem in found)
