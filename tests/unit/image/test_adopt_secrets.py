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
        f"COPY <<E /etc/app/config.yaml\napi_key: {TOKEN}\nE\nRUN touch /a",
        "COPY <<E /etc/app/config.yaml\nhost: h\npassword: plainer-than-that\nE\nRUN touch /a",
        "COPY <<E /root/.netrc\nmachine h login reader password plainer-than-that\nE\nRUN touch /a",
        "RUN echo 'machine h login me password plainer-than-that' > ~/.netrc; touch /a",
        "RUN useradd -m -p 'plainer-than-that' me; touch /a",
        "RUN serve --password plainer-than-that --port 1; touch /a",
        f"RUN serve --token={TOKEN[4:]} & touch /a",
        "RUN cat > /etc/x.ini <<E\npassword = plainer-than-that\nE\nRUN touch /a",
        "RUN sh -c 'serve --password plainer-than-that'; touch /a",
    ],
    ids=lambda text: text.replace(TOKEN, "TOKEN")[:60],
)
def test_no_secret_is_written_or_shown(tmp_path: Path, text: str) -> None:
    found = adopted(tmp_path, text)
    everything = written(tmp_path, found)
    assert "touch /a" in everything
    for secret in (TOKEN, TOKEN[4:], LOGIN, "plainer-than-that", "reader:"):
        assert secret not in everything


def test_a_secret_of_the_command_line_is_not_written_either(tmp_path: Path) -> None:
    text = "ARG API_TOKEN\nARG OTHER=1\nRUN use $API_TOKEN\nRUN touch /a$OTHER"
    found = adopted(tmp_path, text, arguments={"API_TOKEN": "plainer-than-that", "OTHER": TOKEN})
    everything = written(tmp_path, found)
    assert "plainer-than-that" not in everything
    assert TOKEN not in everything
    assert verdicts(found) == [("not-taken", "value")] * 2
    assert "API_TOKEN is a secret" in line_of(found, "use").why


SHOWN = ("ENV PSK=", "ARG PASSPHRASE=", "RUN echo AWS4-HMAC-SHA256", "RUN use --password", "ENV A_KEY=")
MARKS = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "Private-Lines: 14")


@pytest.mark.parametrize("text", [*SHOWN, *(f"RUN test -z \"$(grep -rl -- '{mark}' /etc/app)\"" for mark in MARKS)])
def test_what_looks_like_a_secret_hides_nothing_of_other_lines(tmp_path: Path, text: str) -> None:
    around = [f"touch /a{number}" for number in range(4)]
    runs = [f"RUN {one}" for one in around]
    found = adopted(tmp_path, "\n".join([*runs[:2], text, *runs[2:]]))
    lines = [line for line in found.lines if line.text in around]
    assert [line.text for line in lines] == around
    assert {line.why for line in lines} == {"it runs in the image"}


def test_a_key_without_its_end_is_hidden_in_its_own_line(tmp_path: Path) -> None:
    found = adopted(tmp_path, "RUN echo '-----BEGIN PRIVATE KEY-----\\nshort' > /a\nRUN touch /b")
    assert "short" not in written(tmp_path, found)


PUBLIC = {
    "GPG_KEY": "E3FF2839C048B25C084DEBE9B26995E310250568",
    "PASSWORD_HASH_ROUNDS": "5",
    "ACCESS_TOKEN_EXPIRE_MINUTES": "30",
    "REQUIRE_AUTH": "true",
}


def test_variables_about_secrets_are_kept_and_shown(tmp_path: Path) -> None:
    found = adopted(tmp_path, "\n".join(f"ENV {name}={value}" for name, value in PUBLIC.items()))
    assert found.env == PUBLIC
    assert [line.text for line in found.lines[1:]] == [f"ENV {name}={value}" for name, value in PUBLIC.items()]


@pytest.mark.parametrize(
    "command",
    [
        "apt-key adv --keyserver hkp://h --recv-keys E3FF2839C048B25C084DEBE9B26995E310250568",
        "sed -i 's/max_tokens=10/max_tokens=20/' /srv/a.py",
        'serve --token $TOKEN_FILE --api-key "${KEY}"',
        "python3 - <<'E'\ntoken = read(path)\nopen('/a', 'w').write(token)\nE",
        "useradd -m -p '*' me",
        "passwd -d root",
        "echo 'export API_KEY=${API_KEY:-}' >> /etc/profile",
        "touch /root/.ssh/authorized_keys && chmod 600 /root/.ssh/authorized_keys",
    ],
)
def test_commands_that_only_speak_of_secrets_stay(tmp_path: Path, command: str) -> None:
    assert {verdict for verdict, _ in verdicts(adopted(tmp_path, f"RUN {command}"))} == {"mod"}


def test_a_file_with_a_login_is_named(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/req.txt").write_text(f"--extra-index-url {LOGIN}\nnumpy==2.0\n")
    (tmp_path / "app/a.py").write_text("token = 1\n")
    found = adopted(tmp_path, "COPY app /app/")
    assert [*found.overlay] == ["/app/a.py", "/app/req.txt"]
    assert [one for one in found.remarks if "may be a secret" in one and "app/req.txt" in one and "a.py" not in one]


def test_names_that_only_sound_like_a_secret_stay(tmp_path: Path) -> None:
    found = adopted(
        tmp_path, "ENV MAX_TOKEN=8192 TOKENIZERS_PARALLELISM=false HF_TOKEN=\nARG MAX_TOKENS=1\nRUN a $MAX_TOKENS"
    )
    assert found.env == {"MAX_TOKEN": "8192", "TOKENIZERS_PARALLELISM": "false", "HF_TOKEN": ""}
    assert "env MAX_TOKENS='1' " in found.mods[0].script


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
