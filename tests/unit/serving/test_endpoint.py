"""The URL of an endpoint, and one sentence for each way in which it does not answer."""

import pytest
import requests

from gb10.errors import UsageError
from gb10.serving.load_generator.endpoint import Endpoint, base_url, connection_error, http_error, not_compatible

BASE = "http://me:secret@spark-1:8000/v1"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("spark-1:8000", "http://spark-1:8000/v1"),
        ("http://spark-1:8000/", "http://spark-1:8000/v1"),
        ("https://h/v1/", "https://h/v1"),
        ("https://h/v1/chat/completions", "https://h/v1"),
        ("https://h/api/v2", "https://h/api/v2"),
        ("[::1]:8000", "http://[::1]:8000/v1"),
    ],
)
def test_an_endpoint_has_the_version_of_its_api(given: str, url: str) -> None:
    assert base_url(given) == url
    assert base_url(url) == url


@pytest.mark.parametrize(
    "wrong", ["ftp://h", "h:0", "h:70000", "http://", "http://h?x=1", "http://h#x", "http://[::1", "h:x", ""]
)
def test_what_is_no_endpoint_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="not an endpoint") as caught:
        base_url(wrong)
    assert "http://HOST:PORT" in (caught.value.hint or "")


def test_a_wrong_url_is_repeated_without_its_password() -> None:
    with pytest.raises(UsageError) as caught:
        base_url("http://me:secret@h?x")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "message", "hint"),
    [
        (401, "the endpoint wants a key (401 Why)", "set OPENAI_API_KEY"),
        (403, "the endpoint wants a key (403 Why)", "set OPENAI_API_KEY"),
        (404, "the endpoint has no /models (404)", "http://HOST:PORT/v1"),
        (400, "the endpoint answered 400 Why", "read the server's log"),
        (405, "the endpoint answered 405 Why", "read the server's log"),
        (500, "the endpoint answered 500 Why", "read the server's log"),
    ],
)
def test_a_status_that_is_no_success(status: int, message: str, hint: str) -> None:
    error = http_error(BASE, status, "Why")
    assert error.message == message
    assert hint in (error.hint or "")
    assert "secret" not in (error.where or "")


def wrapped(outer: Exception) -> Exception:
    try:
        try:
            raise OSError("the innermost cause")
        except OSError as error:
            raise outer from error
    except Exception as error:
        return error


@pytest.mark.parametrize(
    ("error", "message", "where"),
    [
        (requests.exceptions.SSLError("x"), "the endpoint's certificate is not trusted", ": the innermost cause"),
        (requests.exceptions.ReadTimeout("x"), "the endpoint did not answer in 15 s", "//spark-1:8000/v1"),
        (requests.exceptions.ConnectionError("x"), "the endpoint does not answer", ": the innermost cause"),
    ],
)
def test_a_connection_that_was_not_made(error: Exception, message: str, where: str) -> None:
    found = connection_error(BASE, wrapped(error))
    assert found.message.startswith(message)
    assert (found.where or "").endswith(where)
    assert "secret" not in (found.where or "")
    assert found.hint


def test_a_server_that_is_something_else() -> None:
    assert (not_compatible(BASE, "it is no JSON").where or "").endswith("/v1: it is no JSON")


def test_the_key_is_a_header_and_is_never_printed() -> None:
    keyed = Endpoint(url=BASE, model="m", key="sk-1")
    assert keyed.headers == {"Authorization": "Bearer sk-1"}
    assert "sk-1" not in repr(keyed)
    assert Endpoint(url=BASE, model="m").headers == {}
