"""Words as their readers see them: odd values go through each form's quoting, and come out as they were."""

import re
import shlex

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gb10.containers.container_options import ContainerOptions, docker_call, run_words
from gb10.serving.deploy.deployment import inline, without_comments
from gb10.serving.deploy.text import Unsafe, compose_value, kubernetes_text, systemd_line, systemd_word, yaml_text
from gb10.serving.run.service import SCRIPT
from tests.deployments import ODD_TEXTS

STEADY = settings(derandomize=True, deadline=None, database=None, max_examples=60)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def expanded(text: str) -> str:
    """Kubernetes' rules for ``args``, written from its documentation: ``$$`` is a dollar, ``$(NAME)`` a variable."""
    return re.sub(r"\$\$|\$\(([^)]*)\)", lambda found: "$" if found[0] == "$$" else f"<{found[1]}>", text)


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_kubernetes_expands_nothing(text: str) -> None:
    assert expanded(kubernetes_text(text)) == text


@STEADY
@given(st.text("$()aB_ {}", max_size=30))
def test_kubernetes_expands_nothing_whatever_stands_beside_a_dollar(text: str) -> None:
    assert expanded(kubernetes_text(text)) == text


def test_kubernetes_shows_plain_variables_of_the_shell_as_they_are() -> None:
    assert kubernetes_text('echo "$HOME" ${X}') == 'echo "$HOME" ${X}'


def test_compose_expands_nothing_in_values() -> None:
    assert compose_value({"$k": ["$a", ("$$",), 1, None]}) == {"$k": ["$$a", ["$$$$"], 1, None]}


ESCAPED = re.compile(r'\\(?:x([0-9a-f]{2})|([\\"nt]))|%(%)|\$(\$)')


def unquoted(word: str) -> str:
    """systemd's rules for a word of ExecStart, written from systemd.service(5) and systemd.syntax(7)."""
    if not word.startswith('"'):
        assert not set(word) & set("%$\\\"' \n\t")
        return word
    parts = ESCAPED.split(word[1:-1].encode().decode("latin-1"))
    texts = []
    for plain, code, sign, *doubled in zip(*(parts[step::5] for step in range(5)), strict=False):
        assert not set(plain) & set('%$\\"\n\t')
        named = {"n": "\n", "t": "\t"}.get(sign or "", sign or "")
        texts += [plain, chr(int(code, 16)) if code else named, *filter(None, doubled)]
    return "".join([*texts, parts[-1]]).encode("latin-1").decode()


@STEADY
@given(TEXTS)
@example(ODD_TEXTS[0])
@example(ODD_TEXTS[1])
def test_systemd_expands_nothing(text: str) -> None:
    assert unquoted(systemd_word(text)) == text
    assert "\n" not in systemd_word(text)


@STEADY
@given(st.dictionaries(TEXTS, TEXTS | st.integers() | st.booleans() | st.lists(TEXTS, max_size=3), max_size=4))
@example({"odd": list(ODD_TEXTS)})
def test_yaml_comes_back_as_it_was(value: object) -> None:
    assert yaml.safe_load(yaml_text(value)) == value


@pytest.mark.parametrize(
    "text", ["1e3", "0o14", "on", "Y", "1_000", "0b1", "12e03", "null", ".5", "=", "NaN", "a b", "2h"]
)
def test_what_one_reader_takes_for_a_number_is_quoted(text: str) -> None:
    assert yaml_text({"a": text}) == f'a: "{text}"\n'


@pytest.mark.parametrize(
    "sign", ["\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\r", "\t", "\x1b", "\xa0", "\N{BOM}", "\xe9"]
)
def test_a_block_has_printable_ascii_alone(sign: str) -> None:
    text = yaml_text({"a": f"b{sign}c\nd"})
    assert "|" not in text
    assert yaml.safe_load(text) == {"a": f"b{sign}c\nd"}
    assert not any(one in text for one in "\x85\u2028\u2029\x0b\x0c\x1b")


def test_yaml_is_laid_out_for_people() -> None:
    text = yaml_text(
        {"a": ["b", {"c": "d\ne\n"}], "f": Unsafe("{{ g }}")}, {"h": True}, head=["two", "lines\nof: a comment"]
    )
    assert text == (
        '# two\n# lines of: a comment\n---\na:\n  - b\n  - c: |\n      d\n      e\nf: !unsafe "{{ g }}"\n---\nh: true\n'
    )


OPTIONS = ContainerOptions(
    image="registry.example/a:1",
    name="gb10-a-0",
    command=("/bin/sh", "/gb10/run/launch.sh", "1", "echo"),
    environment={"A": "b c"},
    labels={"L": "$x"},
    volumes={"v": "/w"},
    memory=5,
    devices=("/dev/infiniband",),
    memlock=True,
    restart=True,
    platform="linux/arm64",
)


def test_every_option_is_a_pair_of_words() -> None:
    words = run_words(OPTIONS)
    names = words[::2]
    assert all(name.startswith("--") for name in names)
    assert dict(zip(names, words[1::2], strict=True)) == {
        "--name": "gb10-a-0",
        "--pull": "missing",
        "--platform": "linux/arm64",
        "--gpus": "all",
        "--ipc": "host",
        "--network": "host",
        "--memory": "5",
        "--memory-swap": "5",
        "--oom-score-adj": "0",
        "--ulimit": "memlock=-1:-1",
        "--restart": "unless-stopped",
        "--device": "/dev/infiniband:/dev/infiniband:rwm",
        "--volume": "v:/w",
        "--env": "A=b c",
        "--label": "L=$x",
        "--entrypoint": "/bin/sh",
    }
    assert docker_call(OPTIONS)[-4:] == ("registry.example/a:1", "/gb10/run/launch.sh", "1", "echo")


@pytest.mark.parametrize(
    ("image", "pull"),
    [("gb10/vllm:1", "never"), ("nvcr.io/nvidia/x:1", "missing"), (f"vllm/vllm@sha256:{'0' * 64}", "missing")],
)
def test_a_name_without_a_registry_is_never_pulled_from_strangers(image: str, pull: str) -> None:
    options = ContainerOptions(image=image, name="n", command=("a",), environment={}, labels={})
    assert options.pull == pull


def test_the_first_process_inline_is_the_script_without_its_comments() -> None:
    script = SCRIPT.read_text(encoding="utf-8")
    shell, flag, text, *rest = inline(OPTIONS, script).command
    assert (shell, flag, *rest) == ("/bin/sh", "-c", "/gb10/run/launch.sh", "1", "echo")
    assert text == without_comments(script)
    assert len(text) < len(script)
    assert "\nGB10\n" not in text, "it would end the here-document of the docker form"
    assert not any(line.startswith(("#", ";")) for line in text.splitlines()), "systemd takes it for a comment"
    assert shlex.quote(text)


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("    ;;", r"    \x3b;\n"),
        ("# why", r"\x23 why\n"),
        ("", r"\n"),
        ("a # b; c", r"a # b; c\n"),
    ],
)
def test_no_line_of_a_unit_s_script_is_taken_for_a_comment(line: str, written: str) -> None:
    assert systemd_line(line) == written
