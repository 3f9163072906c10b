"""Containers that hold an image open for a copy: no run leaves one for good, and none takes another run's."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import docker
import pytest
import requests
from requests.adapters import BaseAdapter

from gb10.containers.images import COPYING, OWNER, ImageInfo, open_image
from gb10.core.store import Store

IMAGE = ImageInfo(id="sha256:1", size=1, diff_ids=(), platform="linux/arm64", tags=())


class Dockerd(BaseAdapter):
    """The containers of an engine, as its API lists, creates and removes them; without a socket."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.labels: dict[str, dict[str, str]] = {}
        self.locked: list[bool] = []

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        url = urlsplit(str(request.url))
        reply = requests.Response()
        reply.request, reply.status_code = request, 200
        answer = self.answer(str(request.method), url.path.rpartition("/")[2], url.path, parse_qs(url.query), request)
        reply.raw = io.BytesIO(json.dumps(answer).encode())
        return reply

    def answer(
        self, method: str, last: str, path: str, query: dict[str, list[str]], request: requests.PreparedRequest
    ) -> object:
        if last == "create":
            with self.store.tried(COPYING) as free:
                self.locked.append(not free)
            self.labels["new"] = json.loads(str(request.body))["Labels"]
            return {"Id": "new"}
        if method == "DELETE":
            return self.labels.pop(last)
        if path.endswith("containers/json"):
            name, _, value = json.loads(query["filters"][0])["label"][0].partition("=")
            return [{"Id": key} for key, labels in self.labels.items() if labels.get(name) == value]
        return {"Id": path.split("/")[-2]}

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def dockerd(tmp_path: Path) -> Dockerd:
    return Dockerd(Store(tmp_path))


@pytest.fixture
def sdk(dockerd: Dockerd) -> Iterator[docker.DockerClient]:
    made = docker.DockerClient(base_url="tcp://engine.invalid:1", version="1.43")
    made.api.mount("http://", dockerd)
    yield made
    made.close()


def test_what_a_killed_run_left_goes_at_the_next_copy(dockerd: Dockerd, sdk: docker.DockerClient) -> None:
    with open_image(sdk, dockerd.store, IMAGE):
        left = dockerd.labels["new"]
    assert not dockerd.labels
    dockerd.labels = {"left": left, "users": {}, "of-another-store": {OWNER: "0" * 32}}
    with open_image(sdk, dockerd.store, IMAGE):
        assert [*dockerd.labels] == ["users", "of-another-store", "new"]
    assert [*dockerd.labels] == ["users", "of-another-store"]


def test_a_copy_holds_the_lock_while_its_container_exists(dockerd: Dockerd, sdk: docker.DockerClient) -> None:
    with open_image(sdk, dockerd.store, IMAGE), dockerd.store.tried(COPYING) as free:
        assert (free, dockerd.locked) == (False, [True])
    with dockerd.store.tried(COPYING) as free:
        assert free


def test_a_copy_that_fails_leaves_no_container(dockerd: Dockerd, sdk: docker.DockerClient) -> None:
    with pytest.raises(ValueError, match="broken"), open_image(sdk, dockerd.store, IMAGE):
        raise ValueError("broken")
    assert not dockerd.labels
