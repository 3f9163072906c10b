"""What belongs to a manifest: the texts that a registry gets, and what is believed of the texts that it sends."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gb10.cli.ship.publish import print_older, rule_of
from gb10.containers.registry.referrers import (
    CREATED,
    Artifact,
    Content,
    Descriptor,
    digest_of,
    manifest_of,
    read_first,
    read_index,
    tag_of,
    write_index,
)
from gb10.core.reporter import Reporter
from gb10.errors import PublishError, UsageError
from gb10.image.publish.retaining import Held, Rule, listing, published, retention, superseded

DIGEST = f"sha256:{'1' * 64}"
EMPTY = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
"""OCI's own figure for two braces."""
NOW = datetime(2026, 11, 24, tzinfo=UTC)


def test_an_artifact_is_a_manifest_of_oci_1_1() -> None:
    artifact = Artifact(kind="a/b", annotations={"x": "y"}, contents=(Content(kind="c/d", content=b"text", title="t"),))
    found = json.loads(manifest_of(artifact, {"mediaType": "m", "digest": DIGEST, "size": 3}))
    assert (found["artifactType"], found["subject"]["digest"], found["annotations"]) == ("a/b", DIGEST, {"x": "y"})
    assert (found["config"]["digest"], found["config"]["size"]) == (EMPTY, 2)
    assert [(layer["mediaType"], layer["size"]) for layer in found["layers"]] == [("c/d", 4)]
    bare = json.loads(manifest_of(Artifact(kind="a/b", annotations={}), {}))
    assert [layer["digest"] for layer in bare["layers"]] == [EMPTY]
    assert tag_of(DIGEST) == f"sha256-{'1' * 64}"


def test_a_long_list_is_cut_before_it_is_read() -> None:
    one = {"mediaType": "m", "digest": DIGEST, "size": 3}
    text = json.dumps({"manifests": [one] * 100 + ["nonsense"] * 30_000})
    found, left = read_first(text, 100)
    assert (len(found), left) == (100, 30_000)
    assert read_first(json.dumps({"manifests": [one]}), 100)[1] == 0
    with pytest.raises(PublishError):
        read_first("[]", 100)


def test_an_index_is_read_as_it_is_written() -> None:
    entries = (
        Descriptor(mediaType="m", digest=DIGEST, size=3, artifactType="a/b", annotations={"x": "y"}),
        Descriptor(mediaType="m", digest=DIGEST, size=4),
    )
    assert read_index(write_index(entries)) == entries


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"manifests": 1}',
        '{"manifests": [{"mediaType": "m", "digest": "../../etc/passwd", "size": 1}]}',
        '{"manifests": [{"mediaType": "m", "digest": "' + DIGEST + '", "size": -1}]}',
        '{"manifests": [{"mediaType": "m", "digest": "' + DIGEST + '", "size": 1, "annotations": {"a": []}}]}',
        "[" * 100_000,
    ],
)
def test_a_text_that_is_no_index_is_one_error(text: str) -> None:
    with pytest.raises(PublishError, match="cannot be read"):
        read_index(text)


def held(tag: str, age: int | None, *others: str) -> Held:
    time = "" if age is None else (NOW - timedelta(days=age)).isoformat()
    return Held(digest=f"sha256:{tag}", config=f"config:{tag}", tags=(f"1-{tag * 12}", *others), published=time)


def test_what_may_go_by_number_and_by_age() -> None:
    found = [held("a", 40), held("b", 1), held("c", 10, "stable"), held("d", 30), held("e", None), held("f", 50)]
    used = {"config:f": "spark-1"}
    by_number = {one.digest[-1]: one.why for one in retention(found, Rule(number=1), used, NOW)}
    assert [name for name, why in by_number.items() if not why] == ["d", "a"]
    assert by_number["c"] == "also named stable"
    assert by_number["f"] == "used on spark-1"
    assert by_number["e"] == "nothing tells when it was published"
    by_age = retention(found, Rule(age=timedelta(days=35)), {}, NOW)
    assert [one.digest[-1] for one in by_age if not one.why] == ["a", "f"]


def test_the_time_of_an_image_is_the_earliest_that_is_attached() -> None:
    def at(text: str) -> Descriptor:
        return Descriptor(mediaType="m", digest=DIGEST, size=1, annotations={CREATED: text})

    assert published([at("2026-11-02T00:00:00Z"), at("2026-11-01T02:00:00+02:00"), at("soon")]) == (
        "2026-11-01T00:00:00+00:00"
    )
    assert published([at("soon")]) == ""


def test_an_image_that_a_kept_index_lists_stays() -> None:
    index = write_index((Descriptor(mediaType="m", digest=DIGEST, size=1),))
    texts = {"multi": index, "1-a": '{"manifests": null}', "1-b": "{}"}
    assert listing(texts) == {DIGEST: "multi"}
    found = [replace(held("a", 40), part_of="multi"), held("b", 1)]
    assert retention(found, Rule(number=1), {}, NOW)[1].why == "part of multi"


def test_the_lists_that_a_registry_keeps_of_one_that_grew() -> None:
    entries = tuple(Descriptor(mediaType="m", digest=DIGEST, size=size) for size in range(3))
    assert superseded(entries) == [digest_of(write_index(entries[:1])), digest_of(write_index(entries[:2]))]
    assert superseded(()) == []


def test_the_rule_of_an_option() -> None:
    assert rule_of("10", delete=True) == Rule(number=10)
    assert rule_of("30d", delete=False) == Rule(age=timedelta(days=30))
    assert rule_of(None, delete=False) is None
    for text, delete in (("1w", False), ("-1", False), ("", True), (None, True)):
        with pytest.raises(UsageError):
            rule_of(text, delete=delete)


def test_what_stays_and_what_may_go_are_apart(capsys: pytest.CaptureFixture[str]) -> None:
    kept = replace(held("a", 1), why="it is used")
    print_older(Reporter({}), "h/a", [kept, held("b", 2)])
    out, err = capsys.readouterr()
    assert "h/a: 1-aaaaaaaaaaaa stays: it is used" in err
    assert "h/a: 1 of 2 images may go: --delete" in err
    assert out.startswith("may go  h/a:1-bbbbbbbbbbbb@sha256:b")
    print_older(Reporter({}), "h/a", [kept, replace(held("b", 2), deleted=True)])
    out, err = capsys.readouterr()
    assert "h/a: 1 of 2 images deleted" in err
    assert out.startswith("deleted  h/a:1-bbbbbbbbbbbb")
    print_older(Reporter({}), "h/a", [kept])
    out, err = capsys.readouterr()
    assert (out, "0 of 1 images may go" in err, "--delete" in err) == ("", True, False)
