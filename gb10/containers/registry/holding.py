"""Holding: the layers that arrived stay when a pull breaks off.

Docker's classic store drops the layers of a pull that broke off, unless an image has them. So an image of them is kept
while they arrive: a config that names their diffIDs, loaded without their bytes. containerd's store keeps what it
fetched by itself.
"""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gb10.containers.buildx.commands import client_variables
from gb10.containers.connection import Engine, asking
from gb10.containers.failure import explained
from gb10.containers.images import drop_image, find_image
from gb10.containers.packages import unpacked
from gb10.core.proc import capture_while_active
from gb10.core.store import Store

REPOSITORY = "gb10/arriving"
PATIENCE = 120.0
"""Seconds after which a registry that sends no config is given up."""
GIVEN_UP = timedelta(days=1)
"""The age at which a pull that broke off is dropped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """The image that holds what an engine has of another one; ``layers`` are that one's diffIDs, lowest first."""

    engine: Engine
    tag: str
    platform: str
    layers: tuple[str, ...]

    def hold(self, count: int) -> None:
        """Keep the lowest layers, all of which the engine has; raises EngineError."""
        if not self.layers:
            return
        before = find_image(self.engine, self.tag)
        if before and len(before.diff_ids) >= count:
            return
        with asking(self.engine) as sdk:
            sdk.images.load(_archive(self.tag, self.platform, self.layers[:count]))
        if before:
            drop_image(self.engine, before.id)

    def drop(self) -> None:
        """Let go, of what others that were given up held, too; raises EngineError."""
        with asking(self.engine) as sdk:
            for image in sdk.images.list(REPOSITORY):
                for tag in image.tags:
                    if (
                        tag == self.tag
                        or (datetime.now(UTC) - datetime.fromisoformat(image.attrs["Created"])) > GIVEN_UP
                    ):
                        sdk.images.remove(tag)


def holder(engine: Engine, digest: str, platform: str, layers: Sequence[str]) -> Holder:
    """The holder for the image of a manifest on one engine."""
    tag = f"{REPOSITORY}:{digest.removeprefix('sha256:')[:12]}-{platform.replace('/', '-')}"
    return Holder(engine=engine, tag=tag, platform=platform, layers=tuple(layers))


def remote_config(store: Store, env: Mapping[str, str], reference: str) -> Mapping[str, Any]:
    """The config of an image in its registry, or of each platform, read from this machine. Raises EngineError."""
    programs = unpacked(store)
    buildx = [str(programs.bin / "docker-buildx")] if programs else ["docker", "buildx"]
    question = ["imagetools", "inspect", reference, "--format", "{{json .Image}}"]
    with explained(f"this machine cannot ask for the config of {reference}", hint="docker buildx must reach it"):
        text = capture_while_active([*buildx, *question], env=client_variables(env, store), patience=PATIENCE)
    found: dict[str, Any] = json.loads(text)
    return found if "rootfs" in found else {name: one for name, one in found.items() if "rootfs" in one}


def layers_in(config: Mapping[str, Any], platform: str) -> tuple[str, ...]:
    """The diffIDs that a registry's answer names for a platform, lowest first. Pure."""
    return tuple((config if "rootfs" in config else config[platform])["rootfs"]["diff_ids"])


def _archive(tag: str, platform: str, layers: Sequence[str]) -> bytes:
    """What ``docker save`` would write of an image with these layers, without them."""
    system, _, machine = platform.partition("/")
    rootfs = {"type": "layers", "diff_ids": list(layers)}
    config = {
        "os": system,
        "architecture": machine.partition("/")[0],
        "config": {},
        "rootfs": rootfs,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    entry = {"Config": "config.json", "RepoTags": [tag], "Layers": [f"{number}.tar" for number in range(len(layers))]}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, document in (("config.json", config), ("manifest.json", [entry])):
            text = json.dumps(document).encode()
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return out.getvalue()
