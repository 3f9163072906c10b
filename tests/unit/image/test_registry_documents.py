"""What a registry sends of an image: read where it has the form, refused by one error where it has not."""

import json

import pytest

from gb10.containers.registry.documents import Sent, SentConfig, SentIndex, SentManifest, parse_sent
from gb10.errors import PublishError
from gb10.image.inspect.remote import SentBill, SentStatement

DIGEST = "sha256:" + "12" * 32


def test_a_manifest_and_an_index_are_told_apart() -> None:
    manifest = json.dumps({"config": {"digest": DIGEST}, "layers": [{"digest": DIGEST, "size": 7}], "odd": 1}).encode()
    assert parse_sent(manifest, SentIndex, "r").manifests is None
    assert parse_sent(manifest, SentManifest, "r").layers[0].size == 7
    index = parse_sent(json.dumps({"manifests": [{"digest": DIGEST}]}).encode(), SentIndex, "r").manifests
    assert index is not None
    assert index[0].platform is None


def test_settings_that_are_null_are_none() -> None:
    text = b'{"os": "linux", "config": {"Labels": null, "Env": null, "User": ""}, "history": null}'
    settings = parse_sent(text, SentConfig, "r").config
    assert settings is not None
    assert (settings.labels, settings.environment, settings.user) == (None, None, "")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SentManifest, b""),
        (SentManifest, b"[" * 9999),
        (SentManifest, b"[]"),
        (SentManifest, b"{}"),
        (SentManifest, b'{"config": {"digest": "sha256:../../x"}}'),
        (SentManifest, json.dumps({"config": {"digest": DIGEST}, "layers": [{"digest": DIGEST, "size": -1}]}).encode()),
        (SentManifest, json.dumps({"config": {"digest": DIGEST}, "layers": [{"digest": DIGEST}] * 5000}).encode()),
        (SentIndex, b'{"manifests": {"a": 1}}'),
        (SentConfig, b'{"config": {"Labels": {"a": [1]}}}'),
        (SentConfig, b'{"history": [1]}'),
        (SentStatement, b'{"subject": [], "predicate": "x"}'),
        (SentBill, b'{"packages": [{"name": "x"}]}'),
    ],
)
def test_a_document_of_another_form_is_one_error(kind: type[Sent], text: bytes) -> None:
    with pytest.raises(PublishError, match="cannot be read") as caught:
        parse_sent(text, kind, "registry.example/x:1")
    assert 0 < len(caught.value.where or "") <= 200
