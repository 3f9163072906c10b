"""Secrets of a Dockerfile: none reaches the recipe, its mods, or what is printed of a line."""

from dataclasses import asdict
from pathlib import Path

import pytest

from gb10.image.adopt.adopted import Adopted
from gb10.image.adopt.recipe_files import write_recipe
from tests.unit.image.test_adopt import adopted, line_of, verdicts

TOKEN = f"ghp_{'aB3dE6gH9' * 4}"
LOGIN = "https://reader:Xk29dkqLs@packages.example.com/simple"


def written(tmp_path: Path, found: Adopted) -> str:
    """All that a user sees or keeps of it."""
    write_recipe(tmp_path / "r.yaml", found, "theirs")
    texts = [path.read_text() for path in (tmp_path / "r.yaml", *sorted((tmp_path / "r").rglob("*"))) if path.is_file()]
    return "\n".join([*texts, str([asdict(line) for line in found.lines]), *found.remarks])


@pytest.mark.parametrize(
    "text",
    [
        f"ARG API_TOKEN={TOKEN}\nRUN touch /a && sh -c 'use $API_TOKEN' > /b",
        f"ARG ANY={TOKEN}\nRUN use $ANY > /b && touch /a",
        f"ENV ANY={TOKEN}\nENV OTHER=$ANY\nRUN use $OTHER && touch /a",
        f"ENV UV_INDEX={LOGIN}\nRUN touch /a",
        f"RUN echo {TOKEN} > /root/.token && touch /a",
        f"RUN <<E\ntouch /a\nAPI_KEY={TOKEN} use\nE",
        f"RUN API_KEY=plainer-than-that use && touch /a # {TOKEN}",
        f"ARG T={TOKEN}\nCOPY <<E /x\nlogin $T\nE\nRUN touch /a",
        f"RUN git clone https://x:{TOKEN}@github.com/a/b && touch /a",
        f"RUN curl -u me:{TOKEN} https://h/a && touch /a",
        f"LABEL token={TOKEN}\nRUN touch /a",
        "ENV HF_TOKEN plainer-than-that\nRUN use $HF_TOKEN && touch /a",
    ],
    ids=lambda text: text.replace(TOKEN, "TOKEN")[:60],
)
def test_no_secret_is_written_or_shown(tmp_path: Path, text: str) -> None:
    found = adopted(tmp_path, text)
    everything = written(tmp_path, found)
    assert "touch /a" in everything
    for secret in (TOKEN, LOGIN, "plainer-than-that", "reader:"):
        assert secret not in everything


def test_a_secret_of_the_command_line_is_not_written_either(tmp_path: Path) -> None:
    text = "ARG API_TOKEN\nARG OTHER=1\nRUN use $API_TOKEN\nRUN touch /a$OTHER"
    found = adopted(tmp_path, text, arguments={"API_TOKEN": "plainer-than-that", "OTHER": TOKEN})
    everything = written(tmp_path, found)
    assert "plainer-than-that" not in everything
    assert TOKEN not in everything
    assert verdicts(found) == [("not-taken", "value")] * 2
    assert "API_TOKEN is a secret" in line_of(found, "use").why


def test_names_that_only_sound_like_a_secret_stay(tmp_path: Path) -> None:
    found = adopted(
        tmp_path, "ENV MAX_TOKEN=8192 TOKENIZERS_PARALLELISM=false HF_TOKEN=\nARG MAX_TOKENS=1\nRUN a $MAX_TOKENS"
    )
    assert found.env == {"MAX_TOKEN": "8192", "TOKENIZERS_PARALLELISM": "false", "HF_TOKEN": ""}
    assert "export MAX_TOKENS='1'" in found.mods[0].script


@pytest.mark.parametrize(
    "command", ["printenv TOK > /a", "python3 -c 'import os; use(os.environ[\"TOK\"])'", "x ${TOK:-}"]
)
def test_a_secret_in_a_variable_is_found_wherever_it_is_named(tmp_path: Path, command: str) -> None:
    found = adopted(tmp_path, f"RUN --mount=type=secret,id=t,env=TOK {command}\nRUN touch /STOK")
    assert [(line.verdict, line.why) for line in found.lines[1:]] == [
        ("not-taken", "it works on what is not taken: a secret of the build"),
        ("mod", "it runs in the image"),
    ]


@pytest.mark.parametrize("text", ["COPY . /app/", "RUN --mount=source=.,target=/app sh /app/a.sh"])
def test_files_with_secrets_are_left_out_of_whole_folders_and_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").mkdir()
    files = {
        "a.sh": "use",
        ".env": "X=1",
        "keys/id_rsa": "k",
        ".netrc": "machine h login x password y",
        "note.txt": f"t={TOKEN}",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    found = adopted(tmp_path, text)
    kept = [*found.overlay, *(name for mod in found.mods for name in mod.files)]
    assert [name.rpartition("/app/")[2] for name in kept] == ["Dockerfile", "a.sh"]
    for name in (".env", "keys/id_rsa", ".netrc", "note.txt"):
        assert name in "".join(found.remarks)
