"""What belongs to a manifest: the texts that a registry gets, and what is believed of the texts that it sends."""

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from gb10.cli.ship.publish import print_older, rule_of
from gb10.containers.connection import Engine
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
from gb10.core.host import Host
from gb10.core.reporter import Reporter
from gb10.errors import PublishError, UsageError
from gb10.image.publish import retaining
from gb10.image.publish.retaining import Held, Rule, listing, published, retain, retention, superseded

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


class Registry:
    """A repository: manifests by digest, tags, and what is attached; ``log`` has what was deleted."""

    def __init__(self) -> None:
        self.texts, self.tags, self.attached = dict[str, str](), dict[str, str](), dict[str, list[Descriptor]]()
        self.log: list[str] = []
        self.refuses = ""
        self.repository = "h.example/a"

    def put(self, *tags: str, age: int | None = None, **manifest: object) -> str:
        """A manifest; with ``age`` in days, a signature that says when, and the list that names it."""
        config = {"mediaType": "m", "digest": f"sha256:{'c' * 64}", "size": 1}
        text = json.dumps({"config": config, "tags": tags, **manifest})
        found = digest_of(text)
        self.texts[found] = text
        self.tags |= dict.fromkeys(tags, found)
        if age is not None:
            own = self.put(subject={"digest": found})
            time = {CREATED: (datetime.now(UTC) - timedelta(days=age)).isoformat()}
            self.attached[found] = [Descriptor(mediaType="m", digest=own, size=1, annotations=time)]
            self.tags[tag_of(found)] = self.put(list_of=found)
        return found

    def of(self, digest: str) -> list[Descriptor]:
        return self.attached.get(digest, [])

    def text(self, name: str, _: object = None) -> str | None:
        place, at, digest = name.partition("@")
        return self.texts.get(digest if at else self.tags.get(place.removeprefix(f"{self.repository}:"), ""))

    def delete(self, name: str, _: object) -> None:
        if self.refuses:
            raise PublishError(self.refuses, hint="the registry's own")
        found = digest_of(self.text(name) or "")
        self.log.append(found)
        del self.texts[found]
        self.tags = {tag: digest for tag, digest in self.tags.items() if digest != found}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    found = Registry()
    monkeypatch.setattr(retaining, "open_referrers", lambda *_: nullcontext(Place(found)))
    containers = {"spark-1": ["sha256:used"], "spark-2": []}
    monkeypatch.setattr(retaining, "reached", nullcontext)
    monkeypatch.setattr(
        retaining, "containers_with", lambda node: [SimpleNamespace(image=image) for image in containers[node]]
    )
    return found


class Place:
    """What ``open_referrers`` yields: a repository and its client."""

    def __init__(self, registry: Registry) -> None:
        self.registry, self.repository, self.access = registry, registry.repository, None
        self.skopeo = SimpleNamespace(tags=lambda *_: list(registry.tags), delete=registry.delete)
        self.of, self.text = registry.of, registry.text


def retained(*, delete: bool, number: int = 1) -> dict[str, tuple[str, bool]]:
    host = cast("Host", SimpleNamespace(store=None, env={}))
    rule = Rule(number=number)
    found = retain(host, cast("Engine", None), "h.example/a", rule, ("spark-1", "spark-2"), delete=delete)
    return {one.tags[0]: (one.why, one.deleted) for one in found}


KEYS = [f"1-cu130-sm121f-{name * 12}" for name in "abc"]


def test_old_images_go_with_all_that_is_attached_and_nothing_else(registry: Registry) -> None:
    old, middle, new = (registry.put(tag, age=age) for tag, age in zip(KEYS, (30, 20, 10), strict=True))
    registry.put("stable")
    before = dict(registry.texts)
    wanted = {KEYS[2]: ("one of the newest 1", False), KEYS[1]: ("", False), KEYS[0]: ("", False)}
    assert retained(delete=False) == wanted
    assert registry.texts == before
    assert retained(delete=True) == {**wanted, KEYS[1]: ("", True), KEYS[0]: ("", True)}
    gone = before.keys() - registry.texts.keys()
    assert {old, middle} < gone and len(gone) == 6, "each with its signature and its list"
    assert set(registry.tags) == {KEYS[2], tag_of(new), "stable"}
    assert retained(delete=True) == {KEYS[2]: ("one of the newest 1", False)}


def test_what_only_claims_to_be_attached_stays(registry: Registry) -> None:
    """Who may push may list anything in an index: a kept image, or what belongs to another."""
    old, kept = registry.put(KEYS[0], age=30), registry.put(KEYS[1], age=1)
    stranger, kept_by_tag = registry.put(subject={"digest": kept}), registry.put("stable", subject={"digest": old})
    odd = [registry.put(subject=subject) for subject in (None, "x")]
    registry.attached[old] += [
        Descriptor(mediaType="m", digest=digest, size=1) for digest in (stranger, kept_by_tag, *odd, DIGEST)
    ]
    assert retained(delete=True)[KEYS[0]] == ("", True)
    assert {stranger, kept_by_tag, *odd, kept} <= registry.texts.keys()
    assert old not in registry.texts


def test_lists_of_manifests_that_are_gone_go_too(registry: Registry) -> None:
    old = registry.put(KEYS[0], age=30)
    registry.put(KEYS[1], age=1)
    del registry.texts[old], registry.tags[KEYS[0]]
    assert set(retained(delete=True)) == {KEYS[1]}
    assert tag_of(old) not in registry.tags
    assert not [one for one in registry.texts.values() if old in one]


@pytest.mark.parametrize(
    ("refusal", "hint"),
    [("405 Method Not Allowed", "allow deletion"), ("DENIED", "allow deletion"), ("timeout", "the registry's own")],
)
def test_a_registry_that_deletes_nothing_is_one_error(refusal: str, hint: str, registry: Registry) -> None:
    for tag, age in zip(KEYS, (30, 20, 10), strict=True):
        registry.put(tag, age=age)
    registry.refuses = refusal
    with pytest.raises(PublishError, match="is not deleted") as caught:
        retained(delete=True)
    assert caught.value.where == refusal
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(("age", "why"), [(34, "younger than 35 days"), (35, ""), (36, "")])
def test_an_image_of_the_age_of_the_rule_may_go(age: int, why: str) -> None:
    (found,) = retention([held("a", age)], Rule(age=timedelta(days=35)), {}, NOW)
    assert found.why == why
    by_digest = retention([held("a", age)], Rule(number=0), {"sha256:a": "spark-2"}, NOW)
    assert by_digest[0].why == "used on spark-2"
