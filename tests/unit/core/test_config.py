"""Settings: the environment over the file over the default; a wrong value is told with its origin."""

from pathlib import Path

import pytest

from gb10.core.config import (
    read_settings,
    store_root,
    unknown_variables,
    with_cache_dir,
    with_settings,
    without_login,
)
from gb10.errors import UsageError
from gb10.image.patches.verdict import releases_in_words


def written(tmp_path: Path, text: str) -> dict[str, str]:
    """The environment of a user whose config.toml holds a text."""
    (tmp_path / "gb10").mkdir()
    (tmp_path / "gb10/config.toml").write_text(text, encoding="utf-8")
    return {"XDG_CONFIG_HOME": str(tmp_path), "HOME": "/home/someone"}


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    env = written(tmp_path, 'jobs = 3\ndebian-mirror = "http://x/debian"\n') | {"GB10_JOBS": "5"}
    values = {setting.name: (setting.value, setting.origin) for setting in read_settings(env)}
    assert values["jobs"] == ("5", "$GB10_JOBS")
    assert values["debian-mirror"] == ("http://x/debian", str(tmp_path / "gb10/config.toml"))
    assert values["ca-bundle"] == (None, "default")


@pytest.mark.parametrize("value", ["0", "-1", "four", "2.5", " 2"])
def test_jobs_is_a_whole_number(value: str) -> None:
    with pytest.raises(UsageError, match="jobs must be a whole number") as caught:
        with_settings({"GB10_JOBS": value})
    assert caught.value.where == "from $GB10_JOBS"


@pytest.mark.parametrize(
    "value",
    [
        "foo",
        "http://",
        "ftp://a.example/debian",
        "http://MIRROR/debian",
        "http://ftp.XX.debian.org/debian",
        "http://a b/debian",
    ],
)
def test_a_debian_mirror_is_an_address(value: str) -> None:
    with pytest.raises(UsageError, match="debian-mirror must be") as caught:
        with_settings({"GB10_DEBIAN_MIRROR": value})
    assert caught.value.where == "from $GB10_DEBIAN_MIRROR"


@pytest.mark.parametrize(
    "value",
    ["http://a.example/debian/", "https://me:it%40@10.0.0.1:8080/debian", "http://[::1]:80/debian", "http://mirror"],
)
def test_a_debian_mirror_has_a_host_and_perhaps_login_port_and_path(value: str) -> None:
    assert with_settings({"GB10_DEBIAN_MIRROR": value})["GB10_DEBIAN_MIRROR"] == value


@pytest.mark.parametrize("value", ["0", "true", '"many"'])
def test_jobs_of_the_file_is_a_whole_number(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError, match="jobs must be a whole number") as caught:
        read_settings(written(tmp_path, f"jobs = {value}\n"))
    assert "config.toml" in (caught.value.where or "")


@pytest.mark.parametrize("text", ["jobs = \n", "\udce9 = 1\n", 'cache-dir = "~/store"\n', 'ca-bundle = "ca.pem"\n'])
def test_a_file_that_cannot_be_used_is_a_usage_error(tmp_path: Path, text: str) -> None:
    env = written(tmp_path, "")
    (tmp_path / "gb10/config.toml").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError):
        read_settings(env)


def test_the_bootstrap_and_the_tool_use_one_store(tmp_path: Path) -> None:
    env = written(tmp_path, 'cache-dir = "/big/gb10"\n') | {"XDG_CACHE_HOME": "/small"}
    assert store_root(with_cache_dir(env)) == store_root(with_settings(env)) == Path("/big/gb10")
    env["GB10_CACHE_DIR"] = "/mine"
    assert store_root(with_cache_dir(env)) == store_root(with_settings(env)) == Path("/mine")


def test_a_start_leaves_other_settings_to_the_tool(tmp_path: Path) -> None:
    env = written(tmp_path, "jobs = 0\nunheard-of = 1\n")
    assert with_cache_dir(env) == env


@pytest.mark.parametrize(
    "value",
    ["redis://h", "redis://h:6379/3", "redis://:p%40s@10.0.0.1:1", "redis://u:p@h", "http://h:80/cache", "http://h"],
)
def test_a_compile_cache_that_ccache_can_ask(value: str) -> None:
    assert with_settings({"GB10_COMPILE_CACHE": value})["GB10_COMPILE_CACHE"] == value


@pytest.mark.parametrize(
    "value",
    [
        "secret",
        "file:///secret",
        "rediss://secret@h",
        "https://secret@h",
        "redis+unix:///secret",
        "redis://a:secret!@h",
        "redis://h|secret",
        "redis://h secret",
        "redis://h\nsecret = 1",
        "redis://",
        "http://${secret}",
        "redis://h:99999",
    ],
)
def test_another_compile_cache_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(UsageError, match="compile-cache must be") as caught:
        with_settings({"GB10_COMPILE_CACHE": value})
    assert "secret" not in str(caught.value)
    assert caught.value.where == "from $GB10_COMPILE_CACHE"


def test_a_compile_cache_is_shown_without_its_login() -> None:
    assert without_login("redis://u:p@h:1/2") == "redis://***@h:1/2"
    assert without_login("http://h/c") == "http://h/c"


def test_an_unknown_variable_is_a_warning_with_the_closest_name() -> None:
    env = {"GB10_JOB": "3", "GB10_JOBS": "3", "GB10_TEST_STORE": "/x", "GB10_GIT_USER": "me"}
    assert unknown_variables(env) == ["warning: GB10_JOB is no setting and is ignored; the closest is GB10_JOBS"]


def test_bad_toml_and_bad_jobs_have_a_hint(tmp_path: Path) -> None:
    file = tmp_path / "gb10/config.toml"
    file.parent.mkdir()
    file.write_text("jobs = \n", encoding="utf-8")
    for env in ({"XDG_CONFIG_HOME": str(tmp_path)}, {"GB10_JOBS": "abc"}):
        with pytest.raises(UsageError) as caught:
            read_settings(env)
        assert caught.value.hint


def test_one_release_is_no_plural() -> None:
    assert (releases_in_words(1), releases_in_words(2)) == ("1 release", "2 releases")


@pytest.mark.parametrize(
    ("line", "guess"),
    [('jbos = "3"', "did you mean 'jobs'? valid: cache-dir, "), ('xyz = "3"', "valid: cache-dir, ")],
)
def test_an_unknown_setting_is_told_with_the_closest_name_where_one_is_close(
    tmp_path: Path, line: str, guess: str
) -> None:
    with pytest.raises(UsageError, match="unknown setting") as caught:
        read_settings(written(tmp_path, line))
    assert (caught.value.hint or "").startswith(guess)


def test_the_smallest_number_of_jobs_and_the_last_port_are_accepted() -> None:
    env = {"GB10_JOBS": "1", "GB10_COMPILE_CACHE": "redis://h:65535"}
    assert with_settings(env) == env
    with pytest.raises(UsageError, match="compile-cache must be"):
        with_settings({"GB10_COMPILE_CACHE": "redis://h:65536"})
