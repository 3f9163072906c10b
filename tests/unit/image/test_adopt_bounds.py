"""Dockerfiles below 1 MiB that would grow without end, or be read over and over."""

import tracemalloc
from collections.abc import Callable, Mapping

import pytest

from gb10.errors import UsageError
from gb10.image.adopt.accounting import DockerfileInputs, account
from gb10.image.adopt.adopted import Adopted
from gb10.image.adopt.build_files import BuildFiles
from gb10.image.adopt.dockerfile import expand, parse_dockerfile
from gb10.image.adopt.shell import parse_commands
from gb10.image.patches.releases import load_releases
from gb10.image.plan.catalog import ROOT
from tests.hang import no_hang
from tests.unit.image.test_adopt import BASE

LONG = "x" * 65_000
MOST_MEMORY = 64 << 20


def read(text: str, environment: Mapping[str, str] | None = None) -> Adopted:
    file = parse_dockerfile(f"FROM {BASE}\n{text}\n".encode(), "D")
    context = BuildFiles(ROOT / "patches")
    return account(file, context, DockerfileInputs(environment=environment), load_releases(ROOT / "patches"), "d")


def bounded(work: Callable[[], object], says: str) -> None:
    """Run what is refused, and hold its memory and its time."""
    tracemalloc.start()
    try:
        with no_hang(), pytest.raises(UsageError, match=says):
            work()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY


def test_a_value_is_refused_before_all_of_it_is_put_in() -> None:
    bounded(lambda: expand("$A" * 2_000, {"A": LONG}), "too long")
    bounded(lambda: expand("a" * 70_000, {}), "too long")
    assert expand("b$A", {"A": LONG}) == f"b{LONG}"
    bounded(lambda: read(f"ARG A={LONG}\nENV X={'$A' * 2_000}"), "too long")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("".join(f"ENV B{n}=y$A\n" for n in range(1_900)), id="ENV"),
        pytest.param("".join(f"ARG B{n}=y$A\n" for n in range(1_900)), id="ARG"),
        pytest.param("".join(f"COPY --from=a b{n}$A c /x/\n" for n in range(1_900)), id="COPY"),
        pytest.param("WORKDIR /$A", id="WORKDIR"),
        pytest.param("RUN echo " + '"$A" ' * 2_000, id="words of a RUN"),
        pytest.param('RUN echo "' + "$A" * 2_000 + '"', id="a string of a RUN"),
        pytest.param("RUN echo b" + "$A" * 2_000, id="a word of a RUN"),
    ],
)
def test_many_long_values_are_refused(text: str) -> None:
    bounded(lambda: read(f"ARG A={LONG}\n{text}"), "too long")


def test_the_text_of_a_command_for_people_does_not_grow() -> None:
    text = "echo " + "$A " * 5_000
    assert parse_commands(text, (1,), {"A": "x" * 900})[0].seen == text.rstrip()
    assert parse_commands("echo $A", (1,), {"A": "b"})[0].seen == "echo b"


@no_hang()
def test_lines_that_cannot_be_read_are_each_read_once() -> None:
    text = "".join("ENV =\n" for _ in range(4_000)).encode()
    bounded(lambda: parse_dockerfile(b"FROM a\n" + text, "D"), "more than 2,000 instructions")
    blank = b"FROM a\n" + b"\n" * 200_000 + b"ENV =\n" * 1_900
    found = parse_dockerfile(blank, "D")
    assert found.stages[0].instructions[-1].last == 200_001 + 1_900


def test_what_stands_behind_a_line_that_cannot_be_read_keeps_its_place() -> None:
    text = "FROM a\n\nEXPOSE ((\n\nENV A=1 \\\n  B=2\nRUN a && \\\n  # text\n  b\nEXPOSE ))\n"
    found = parse_dockerfile(text.encode(), "D").stages[0].instructions
    named = [(one.name, one.first, one.last, one.rows) for one in found if one.name in ("ENV", "RUN")]
    assert named == [("ENV", 5, 6, ()), ("RUN", 7, 9, (7, 9))]
    assert next(one.text for one in found if one.name == "ENV") == "ENV A=1 \\\n  B=2"


@pytest.mark.parametrize("kind", ["ENV", "ARG", "LABEL"])
def test_an_instruction_with_too_many_words_is_refused(kind: str) -> None:
    words = " ".join(f"A{n}=$B{n}" for n in range(3_000))
    bounded(lambda: read(f"{kind} {words}", {}), f"{kind} has more than 1,000 arguments")


@no_hang()
def test_many_variables_in_many_instructions_are_read_in_time() -> None:
    text = "".join(f"ENV {' '.join(f'A{n}_{m}=$B{n}_{m}' for m in range(300))}\n" for n in range(50))
    assert len(read(text + "ENV Z=$Z\n" * 1_500, {}).env) == 15_001


@pytest.mark.parametrize("text", ["RUN <<EOF\necho\n", "COPY <<'A' <<B /x/\na\nA\n", "RUN <<-E cat > /a\n" * 50])
def test_a_heredoc_without_end_is_one_error(text: str) -> None:
    bounded(lambda: read(text), "has no end")


@no_hang()
def test_many_paths_that_are_lost_are_sought_in_time() -> None:
    lost = "".join(f"RUN curl -o /srv/f{n} https://h/{n}\n" for n in range(900))
    assert len(read(lost + f"RUN touch {' '.join(f'w{n}' for n in range(60))}\n" * 500).lines) == 1_401


@no_hang()
def test_many_paths_in_a_folder_that_is_filled_are_sought_in_time() -> None:
    text = "RUN wget -P /opt https://h/x\n" + "RUN mkdir -p /opt/a && use /opt/a/c\n" * 300
    many = f"RUN mkdir {' '.join(f'/opt/w{n}' for n in range(5_000))}\nRUN use /opt{'/a' * 20_000}\n"
    assert [line.verdict for line in read(text + many).lines][-2:] == ["mod", "mod"]


def test_a_replacement_is_bounded_before_it_is_made() -> None:
    text = f"FROM a\nENV A={'a' * 60_000}\nENV B=${{A//a/{'b' * 500_000}}}\nRUN echo $B\n"
    with pytest.raises(UsageError, match="too long"):
        read(text)


def test_stages_that_copy_from_each_other_in_a_circle_end() -> None:
    circle = "FROM a AS x\nCOPY --from=y /a /a\nFROM a AS y\nCOPY --from=x /a /b\nCOPY --from=y /a /b"
    assert {line.verdict for line in read(circle).lines} == {"other-stage", "taken", "not-taken"}


@pytest.mark.parametrize(
    "text",
    [
        "if [ 1 = 1 ]; then " * 3000 + "a;" + " fi;" * 3000,
        "if " + " && ".join(["[ 1 = 1 ]"] * 3000) + "; then a; fi",
        "if [ " + "! " * 3000 + "-z x ]; then a; fi",
        "if [ 1 = 2 ]; then a;" + "elif [ 1 = 2 ]; then b;" * 3000 + "fi",
        f"if [ {'9' * 5000} -gt 1 ]; then a; fi",
    ],
)
def test_conditions_in_each_other_are_read_to_a_bound(text: str) -> None:
    assert len(parse_commands(text, [1], {})) == 1
