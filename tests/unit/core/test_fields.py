"""The texts that recipes and locks may hold: what is accepted, what is refused, and what is said of it."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gb10.core.fields import (
    DEEPEST,
    LONGEST,
    CommitIndexUrl,
    Folder,
    IndexUrl,
    Pinned,
    Release,
    Releases,
    Requirements,
    RequirementText,
)
from gb10.core.fields import requirement_name as name_of

NESTED = "a; " + "(" * DEEPEST + "python_version > '3'" + ")" * DEEPEST


def said(kind: Any, value: object) -> str:  # noqa: ANN401 # an annotated type has no type
    """What is wrong with a value; empty when it is accepted as it is."""
    try:
        assert TypeAdapter(kind).validate_python(value) == value
    except ValidationError as error:
        return error.errors()[0]["msg"].removeprefix("Value error, ")
    return ""


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (IndexUrl, "https://index.example/simple/"),
        (IndexUrl, "https://index.example:8443/a-b/c_d"),
        (IndexUrl, "https://index.example"),
        (IndexUrl, "http://localhost:3141/root"),
        (IndexUrl, "http://127.0.0.1/simple"),
        (Folder, "a"),
        (Folder, "a/b.c/..d"),
        (Pinned, "torch==2.14.0"),
        (Pinned, "nvidia_nccl.cu13==1+a"),
        (RequirementText, "a[b]>=1; python_version > '3'"),
        (RequirementText, NESTED),
        (RequirementText, "a" * LONGEST),
        (Release, "0.24.0rc1"),
        (Releases, ">=0.24,<0.34"),
        (Requirements, ("a; python_version > '3'", "a; python_version <= '3'", "b")),
    ],
)
def test_what_a_recipe_may_say(kind: object, value: object) -> None:
    assert said(kind, value) == ""


@pytest.mark.parametrize(
    ("kind", "value", "complaint"),
    [
        (IndexUrl, "http://index.example/simple", "an index is https://HOST/PATH"),
        (CommitIndexUrl, "http://index.example/{commit}", "an index is https://HOST/PATH"),
        (CommitIndexUrl, "https://index.example/simple", "with {commit} once in its path"),
        (CommitIndexUrl, "https://{commit}.example/simple", "with {commit} once in its path"),
        (CommitIndexUrl, "https://index.example/{commit}/{commit}", "with {commit} once in its path"),
        (IndexUrl, "https://me:secret@index.example/simple", "without a password"),
        (IndexUrl, "http://localhost.example/simple", "an index is"),
        (Folder, "", "is not a plain path"),
        (Folder, "/a", "is not a plain path"),
        (Folder, "a/", "is not a plain path"),
        (Folder, "a//b", "is not a plain path"),
        (Folder, "a/../b", "is not a plain path"),
        (Folder, "./a", "is not a plain path"),
        (Folder, "a\nb", "is not a plain path"),
        (Pinned, "torch", "needs one exact version: name==version"),
        (Pinned, "torch==2.*", "needs one exact version"),
        (Pinned, "torch>=2", "needs one exact version"),
        (RequirementText, "a b", "'a b' is not a requirement: "),
        (RequirementText, NESTED.replace("(", "((", 1), f"it has more than {DEEPEST} parentheses"),
        (RequirementText, "a" * (LONGEST + 1), f"it has {LONGEST + 1} characters; the limit is {LONGEST}"),
        (Release, "new", "'new' is not a release: write for example '0.24.0'"),
        (Releases, "0.24", "'0.24' is not a range of releases"),
        (Requirements, ("A_b", "a-B>=2"), "the requirement a-b is listed twice"),
    ],
)
def test_what_a_recipe_may_not_say(kind: object, value: object, complaint: str) -> None:
    found = said(kind, value)
    assert complaint in found
    assert "\n" not in found


def test_a_requirement_is_known_by_its_canonical_name() -> None:
    assert name_of("Flash_Attn.X[a]>=1; python_version > '3'") == "flash-attn-x"
