"""The login in a git URL: out of the command line, into the environment, and only for its host."""

import pytest

from gb10.core.proc import capture
from gb10.errors import FetchError
from gb10.sources.git.address import HELPER, split_git_url, without_login

HELP = [("credential.https://h.invalid:8443.helper", ""), ("credential.https://h.invalid:8443.helper", HELPER)]


def settings(env: dict[str, str]) -> list[tuple[str, str]]:
    """git's settings in an environment."""
    return [(env[f"GIT_CONFIG_KEY_{at}"], env[f"GIT_CONFIG_VALUE_{at}"]) for at in range(int(env["GIT_CONFIG_COUNT"]))]


def test_a_login_is_in_the_environment_alone() -> None:
    url, env = without_login("https://me:se%40c%2Fret@h.invalid:8443/a.git", {"HOME": "/"})
    assert url == "https://h.invalid:8443/a.git"
    assert settings(env) == HELP
    assert (env["HOME"], env["GB10_GIT_USER"], env["GB10_GIT_PASSWORD"]) == ("/", "me", "se@c/ret")


def test_the_users_own_settings_stay() -> None:
    theirs = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.proxy", "GIT_CONFIG_VALUE_0": "http://p.invalid"}
    assert settings(without_login("https://me:x@h.invalid:8443/a", theirs)[1]) == [
        ("http.proxy", "http://p.invalid"),
        *HELP,
    ]


def test_a_user_name_alone_leaves_the_password_to_the_users_own_helper() -> None:
    url, env = without_login("http://token@h.invalid/a", {})
    assert (url, settings(env)) == ("http://h.invalid/a", [("credential.http://h.invalid.username", "token")])


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("https://h.invalid/a", True),
        ("ssh://git@h.invalid/a", True),
        ("file:///upstream", True),
        ("http://127.0.0.1:80/a", True),
        ("http://h.invalid/a", False),
        ("git://127.0.0.1/a", False),
        ("ext::sh -c id", False),
        ("https://h.invalid/a b", False),
        ("https://h.invalid/a\x1b", False),
    ],
)
def test_http_is_for_this_machine_alone(url: str, read: bool) -> None:
    assert (split_git_url(url) is not None) is read


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://h.invalid/a", "https://h.invalid/a"),
        ("file:///upstream", "file:///upstream"),
        ("ssh://git@h.invalid/a", "ssh://git@h.invalid/a"),
        ("ssh://git:secret@h.invalid:22/a", "ssh://git@h.invalid:22/a"),
    ],
)
def test_other_urls_need_no_settings(url: str, plain: str) -> None:
    assert without_login(url, {"HOME": "/"}) == (plain, {"HOME": "/"})


@pytest.mark.parametrize("password", ["a b", "$(touch x)", "'\"\\n%s", "ä"])
def test_the_helper_prints_what_git_reads(password: str) -> None:
    env = {"PATH": "/usr/bin:/bin", "GB10_GIT_USER": "me", "GB10_GIT_PASSWORD": password}
    script = HELPER.removeprefix("!")
    assert capture(["sh", "-c", f"{script} get"], env=env) == f"username=me\npassword={password}\n"
    assert capture(["sh", "-c", f"{script} store"], env=env) == ""


@pytest.mark.parametrize(
    "url", ["https://me:se%0acret@h.invalid/a", "https://m%00e:secret@h.invalid/a", "https://me:secret@["]
)
def test_a_url_that_git_would_misread_is_one_error_without_the_password(url: str) -> None:
    with pytest.raises(FetchError, match="the URL of a git repository cannot be read") as caught:
        without_login(url, {})
    assert "cret" not in str(caught.value)
