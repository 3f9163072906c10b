"""Pushing by zstd: the proven image saved once, its layers compressed on the way; what arrived is looked at again."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo
from gb10.containers.registry.access import access_to
from gb10.containers.registry.referrers import digest_of
from gb10.containers.registry.saving import Layout, check_disk_space, save_layout
from gb10.containers.registry.skopeo import Access, Skopeo, open_skopeo
from gb10.containers.registry.transfer import Moves
from gb10.core.reporter import Reporter
from gb10.errors import PublishError
from gb10.image.context import Context
from gb10.image.publish.retries import REFUSED, not_published, patiently, tells

ZSTD = "+zstd"
ELSEWHERE = "push to another repository, or without --compression"
OTHERS = "another push changed it meanwhile: push again, or to another tag"


@dataclass(frozen=True, kw_only=True, slots=True)
class Compressor:
    """Sends one proven image, whose config has the digest ``config``."""

    ctx: Context
    engine: Engine
    image: ImageInfo
    config: str
    level: int
    skopeo: Skopeo
    saved: Callable[[], Layout]

    def send(self, name: str) -> Moves:
        """The moves of a push after which the registry holds the image, as zstd, under this name.

        Where it does so already nothing is saved nor sent. Raises EngineError and PublishError.
        """
        with access_to(self.engine, self.ctx.env, name) as access, not_published(name):
            existing = self._existing(name, access)
            if existing is not None:
                return arrived(existing, Moves())
            moves, text = self._copied(name, access, self.saved())
        self._check(name, moves.digest, text)
        return arrived(text, moves)

    def _copied(self, name: str, access: Access, layout: Layout) -> tuple[Moves, str]:
        """The moves of a push, and the manifest that the registry has after it."""
        found: list[str] = []

        def transfer(moves: Moves) -> None:
            self.skopeo.copy(layout, name, access, self.level, moves)
            found.append(self.skopeo.manifest(name, access))

        with self.ctx.reporter.task(name) as task:
            return patiently(self.ctx.reporter, task, transfer), found[-1]

    def _check(self, name: str, pushed: str, text: str) -> None:
        """Raise PublishError unless what the registry has is what was pushed, and is the image."""
        found, wrong = digest_of(text), manifest_mismatch(text, self.config, len(self.image.diff_ids))
        if found != pushed:
            raise PublishError(
                f"{name} is not what was pushed",
                where="\n".join(filter(None, (f"pushed {pushed}", f"found  {found}", wrong))),
                hint=OTHERS,
            )
        if wrong:
            raise PublishError(f"{name} is pushed, and is not the image by zstd", where=wrong, hint=ELSEWHERE)

    def _existing(self, name: str, access: Access) -> str | None:
        """The manifest that the registry has under the name, if it is the image's, by zstd.

        Raises PublishError where the registry refuses to answer, so before the image is saved.
        """
        found: list[str] = []

        def look(_: Moves) -> None:
            try:
                found.append(self.skopeo.manifest(name, access))
            except PublishError as error:
                if not tells(error, REFUSED):
                    raise
                self.ctx.reporter.detail(
                    f"{name}: {error.message}"
                )  # as a rule none yet; else the push reports it, too

        with self.ctx.reporter.task(f"look for {name}") as task:
            patiently(self.ctx.reporter, task, look)
        right = found and not manifest_mismatch(found[0], self.config, len(self.image.diff_ids))
        return found[0] if right else None


@contextmanager
def compressor(
    ctx: Context, engine: Engine, image: ImageInfo, config: str, level: int
) -> Iterator[Callable[[str], Moves]]:
    """What sends the image; it is saved when it is first to be sent, and that copy of it is gone afterwards."""
    skopeo = open_skopeo(ctx.store, ctx.env)
    with ExitStack() as cleanup:
        saved = cache(
            lambda: _save(ctx.reporter, engine, image, config, cleanup.enter_context(ctx.store.folder("layout")))
        )
        yield Compressor(
            ctx=ctx, engine=engine, image=image, config=config, level=level, skopeo=skopeo, saved=saved
        ).send


def _save(reporter: Reporter, engine: Engine, image: ImageInfo, config: str, folder: Path) -> Layout:
    check_disk_space(engine, folder, image.size)
    with reporter.task("save the image", image.size) as task:
        layout = save_layout(engine, image.id, config, folder, partial(reporter.advance, task))
        reporter.update(task, task.done, task.done)  # tars are a little larger than what they hold
    return layout


def manifest_mismatch(text: str, config: str, layers: int) -> str:
    """What keeps a manifest from being that of the image, all layers as zstd; empty when nothing does. Pure."""
    found = config_in(text)
    if found != config:
        return f"its config is {found}, not {config}"
    kinds = [layer["mediaType"] for layer in json.loads(text)["layers"]]
    if len(kinds) != layers:
        return f"it has {len(kinds)} layers, not {layers}"
    others = sorted({kind for kind in kinds if not kind.endswith(ZSTD)})
    return f"it has layers of {', '.join(others)}" if others else ""


def config_in(text: str) -> str:
    """The digest of the config that a manifest names; ``none`` for an index, say. Pure."""
    manifest: Mapping[str, Any] = json.loads(text)
    return str(manifest.get("config", {}).get("digest", "none"))


def arrived(text: str, moves: Moves) -> Moves:
    """The moves, completed by the manifest: which layers the registry had, and the bytes that were sent."""
    layers = {layer["digest"]: int(layer["size"]) for layer in json.loads(text)["layers"]}
    moves.digest = digest_of(text)
    moves.moved &= layers.keys()
    moves.present |= layers.keys() - moves.moved
    moves.done = {layer: layers[layer] for layer in moves.moved}
    return moves
