"""What we hand to uv and what we read back from it."""

import tomllib
from pathlib import Path

import pytest

from gb10.core.store import Store
from gb10.errors import FetchError, UsageError
from gb10.image.lock.lockfile import load_recipe
from gb10.image.lock.relock import built_with
from gb10.image.lock.resolver import (
    MISFIT,
    Platform,
    Resolved,
    Resolver,
    check_origin,
    explained,
    preferences,
    read_resolution,
)
from gb10.image.plan.catalog import ROOT
from gb10.sources.index.page import Link

ARM = Platform(python="3.13", architecture="arm64", glibc=39)
PYLOCK = """\
lock-version = "1.0"
created-by = "uv"

[[packages]]
name = "b"
version = "2"
wheels = [
    { url = "https://index.invalid/b-2-py3-none-any.whl", hashes = { sha256 = "bb" } },
    { url = "https://index.invalid/b-2%2Bcu130-cp313-abi3-linux_aarch64.whl", size = 7, hashes = { sha256 = "b2" } },
]

[[packages]]
name = "a"
version = "1"
wheels = [{ name = "a-1-py3-none-any.whl", url = "https://index.invalid/x", hashes = { sha256 = "aa" } }]
"""


def test_a_resolution_is_sorted_and_has_one_file_each() -> None:
    first, second = read_resolution(PYLOCK, ARM)
    assert (first.name, first.version, first.link.filename, first.link.sha256) == (
        "a",
        "1",
        "a-1-py3-none-any.whl",
        "aa",
    )
    assert second.link.filename == "b-2+cu130-cp313-abi3-linux_aarch64.whl"
    assert (second.link.size, second.link.sha256) == (7, "b2")


def test_no_wheel_for_the_platform() -> None:
    text = PYLOCK.replace("a-1-py3-none-any", "a-1-cp313-cp313-win_amd64")
    with pytest.raises(UsageError, match="a 1 has no wheel for aarch64-manylinux_2_39"):
        read_resolution(text, ARM)


@pytest.mark.parametrize("pins", [{}, {"b": "2", "a": "1"}])
def test_preferences_are_a_pylock(pins: dict[str, str]) -> None:
    document = tomllib.loads(preferences(pins, "3.13"))
    assert {entry["name"]: entry["version"] for entry in document["packages"]} == pins


def resolved(name: str, version: str) -> Resolved:
    return Resolved(name=name, version=version, link=Link(filename=f"{name}.whl", url="https://index.invalid"))


@pytest.mark.parametrize(
    ("version", "asks", "cuda"),
    [
        ("2.9.1+cu130", None, "13.0"),
        ("2.9.1+cu129", None, "12.9"),
        ("2.9.1+cpu", None, "none"),
        ("2.9.1+cu130.post1", None, "13.0"),
        ("2.9.1+rocm6.4", None, "none"),
        ("2.9.1+xpu", None, "none"),
        ("2.9.1", {"sympy": "1.14", "nvidia-cuda-runtime-cu12": "12.8.90"}, "12.8"),
        ("2.14.0", {"cuda-toolkit": "13.0.3", "nvidia-cuda-runtime": "13.0.96"}, "13.0"),
        ("2.9.1", {"sympy": "1.14"}, "none"),
        ("2.9.1+vendor.1", {"sympy": "1.14"}, None),
    ],
)
def test_a_torch_tells_its_cuda(version: str, asks: dict[str, str] | None, cuda: str | None) -> None:
    def closure(requirement: str) -> list[Resolved]:
        assert requirement == f"torch=={version}"
        assert asks is not None, "the label says it"
        return [resolved(name, found) for name, found in asks.items()]

    assert built_with(resolved("torch", version), closure) == cuda


def test_the_reason_of_a_long_derivation_is_one_sentence() -> None:
    """uv lists versions one per line: its first words lie far above the last lines that it wrote."""
    many = "\n".join(f"          helper=={number}" for number in range(60))
    text = f"""  x No solution found when resolving dependencies:
  `-> Because only the following versions of helper are available:
{many}
      and serving==1 depends on helper>99, we can conclude that serving==1 cannot be used.
      And because you require serving==1, we can conclude that your requirements are unsatisfiable.
"""
    error = explained(text, "\n".join(text.splitlines()[-30:]), ARM)
    assert isinstance(error, UsageError)
    assert error.message.startswith(f"{MISFIT} on aarch64-manylinux_2_39: only the following versions of helper are ")
    assert error.message.endswith("…; and you require serving==1")
    assert len(error.message) < 400
    assert isinstance(explained("error: no route to host", "error: no route to host", ARM), FetchError)


def test_the_password_of_an_index_is_in_no_command_line(tmp_path: Path) -> None:
    recipe = load_recipe(ROOT / "recipes" / "images" / "vllm.yaml")
    resolver = Resolver(
        Store(tmp_path), {"UV_INDEX": "https://other"}, "https://me:secret@index.invalid/simple", recipe
    )
    assert not [word for word in resolver._argv(ARM) if "secret" in word]
    environment = resolver._env()
    assert environment["UV_DEFAULT_INDEX"] == "https://me:secret@index.invalid/simple"
    assert "UV_INDEX" not in environment


def test_a_users_patience_with_an_index_counts(tmp_path: Path) -> None:
    recipe = load_recipe(ROOT / "recipes" / "images" / "vllm.yaml")
    for env, seconds in (({}, "60"), ({"UV_HTTP_TIMEOUT": "7"}, "7")):
        assert Resolver(Store(tmp_path), env, "https://index.invalid", recipe)._env()["UV_HTTP_TIMEOUT"] == seconds


def link(filename: str, sha256: str | None = None, host: str = "a.invalid") -> Link:
    return Link(filename=filename, url=f"https://{host}/{filename}", sha256=sha256)


@pytest.mark.parametrize(
    ("page", "found", "fits"),
    [
        (link("b-2+c.whl", "b2"), link("b-2%2Bc.whl", "b2"), True),
        (link("b-2+c.whl"), link("b-2%2Bc.whl", "b2"), True),  # the page gives no hash, so the address decides
        (link("b-2+c.whl"), link("b-2+c.whl", "b2", "b.invalid"), False),
        (link("b-2+c.whl", "b2"), link("b-2+c.whl", "b3"), False),
        (link("b-2+c.whl", "b2"), link("b-2+d.whl", "b2"), False),
    ],
)
def test_a_file_is_compared_with_its_page_by_decoded_name_and_by_the_hash_that_is_given(
    page: Link, found: Link, *, fits: bool
) -> None:
    named = {"b": frozenset({page})}
    check_origin(named, "another", found)
    if fits:
        check_origin(named, "b", found)
    else:
        with pytest.raises(FetchError, match="is not from the index that the recipe names for b"):
            check_origin(named, "b", found)
