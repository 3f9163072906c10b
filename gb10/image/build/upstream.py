"""Upstream's layers, one after the other: BuildKit keeps neither the wheels of a layer nor a second copy of its files.

The image of each layer is built above the one below it, and is the base of the image. So its wheels need not be sent
again, and a change above them costs nothing below.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gb10.containers.buildx.build import BuildRequest
from gb10.containers.buildx.build_cache import forget, sent_contexts
from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, copy_files, drop_image, require_image, tag_image, untag
from gb10.core.fetch import store_paths
from gb10.image.build.assemble import slim_files
from gb10.image.build.bases import STAGES, Bases, base_tag, layers_tag, made_image, note_image, noted_image
from gb10.image.build.contexts import build_context, scanner_files, wheels
from gb10.image.build.estimate import UPSTREAM, outlook
from gb10.image.context import Context
from gb10.image.plan.render import build_args, part_dockerfile
from gb10.image.plan.values import Plan, Step
from gb10.image.proof.scans import SCAN, SCANS, SYMBOLS, layer_scan_path, require_scanned

INSTALL = "python3 /install.py --wheels /wheels --out /out "
"""In the command of a stage that installs a layer, as BuildKit describes its result."""
UNPACKED = (
    INSTALL,
    "python3 /install.py --wheels /wheels --out /target ",  # headers and libraries that compilers read
    "tar --extract --file /archives/",  # a wheel's source that was compiled
    "ADD base-image.tar /out/",  # the base whose headers CMake targets read
)
"""In the commands of stages whose results a later build makes again from the store, if it needs them at all."""
LAYERED, SCANNED = "layered", "scanned"


@dataclass(frozen=True, kw_only=True, slots=True)
class Upstream:
    """The image of the base and upstream's layers, and the folder with the scan of each layer, by step."""

    image: str
    scans: Mapping[str, Path]

    @property
    def contexts(self) -> dict[str, Path | str]:
        """The named contexts that stand for the stages of the image's Dockerfile."""
        return {
            "upstream": f"docker-image://{self.image}",
            **{f"scan-{name}": folder for name, folder in self.scans.items()},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A layer, the tag of the image that ends with it, and the tag of the image below, at first the base's."""

    step: Step
    tag: str
    below: str


@dataclass(frozen=True, slots=True)
class UpstreamLayers:
    """The layers of a plan that hold only locked wheels, on an engine.

    ``rebuild_id`` names a run that makes all of them again, beside those that are there; ``drop`` removes them.
    """

    ctx: Context
    plan: Plan
    engine: Engine
    rebuild_id: str = ""

    def image(self) -> Upstream:
        """The image of the layers, built where it is missing, and their scans. Raises BuildError and EngineError.

        The lock of the image must be held, its bases and wheels be in the store.
        """
        ctx, engine = self.ctx, self.engine
        links, wheels_sent = self.links(), sent_contexts(upstream_wheels(self.plan))
        cached = max((number for number, link in enumerate(links, 1) if self._known(link)), default=0)
        bases = Bases(ctx, self.plan, engine, self.rebuild_id)
        ctx.forecast.begin(UPSTREAM)
        for name in STAGES if cached < len(links) else ():
            bases.image(name)
            ctx.forecast.done(UPSTREAM, name)
        if cached < len(links):
            bases.ready_tools()
        with ctx.reporter.task(UPSTREAM, len(links), unit="layers", outlook=outlook(ctx, UPSTREAM)) as task:
            ctx.reporter.advance(task, cached)
            for link in links[cached:]:
                # the wheels of the layers that are there, and the folder that the last one was copied from
                forget(engine, lambda about: about in wheels_sent or INSTALL in about)
                self._add(link)
                untag(engine, [link.below] if link is not links[0] else [])
                ctx.forecast.done(UPSTREAM, link.step.name)
                ctx.reporter.advance(task, 1, link.step.name)
        ctx.forecast.end(UPSTREAM)
        image = require_image(engine, links[-1].tag)
        kept = zip(links, image.diff_ids[1:], strict=True)
        return Upstream(
            image=links[-1].tag, scans={link.step.name: layer_scan_path(ctx, diff_id).parent for link, diff_id in kept}
        )

    def drop(self) -> None:
        """Remove the images of the layers and bases that a run made again."""
        bases = (base_tag(self.plan, name, self.rebuild_id) for name in STAGES)
        untag(self.engine, [*(link.tag for link in self.links()), *bases])

    def links(self) -> list[Link]:
        """The layers with the tag of the image that each makes: the key of what it holds."""
        again = [self.rebuild_id] if self.rebuild_id else []
        links, keys = list[Link](), [self.plan.step("base-image").key, self.plan.options.platform, *again]
        for step in upstream_layers(self.plan):
            keys.append(step.key)
            below = links[-1].tag if links else base_tag(self.plan, "base-image", self.rebuild_id)
            links.append(Link(step=step, tag=layers_tag("upstream", keys), below=below))
        return links

    def _known(self, link: Link) -> bool:
        """Whether the engine has this very image, and the store the scan of each layer above the base."""
        image = noted_image(self.ctx, self.engine, link.tag)
        kept = [layer_scan_path(self.ctx, layer) for layer in image.diff_ids[1:]] if image else []
        return image is not None and all(scan.exists() and scan.with_name(SYMBOLS).exists() for scan in kept)

    def _add(self, link: Link) -> None:
        """Build one layer, tag the image that has it, and scan it."""
        ctx, plan, own = self.ctx, self.plan, self.ctx.catalog.contents
        steps = (plan.step("tools"), link.step)
        folders = {f"{step.name}-wheels": wheels(store_paths(ctx.store, step.files)) for step in steps}
        images = {"base-build": base_tag(plan, "base-build", self.rebuild_id), "below": link.below}
        files = {
            "Dockerfile": part_dockerfile(plan, "layer", ctx.catalog.templates, layer=link.step.name).encode(),
            "install.py": own["inside/install/install.py"],
            **slim_files(own, [link.step]),
            **scanner_files(own),
        }
        with build_context(ctx.store, files, folders) as context:
            request = BuildRequest(
                dockerfile=context.folder / "Dockerfile",
                target=LAYERED,
                platform=plan.options.platform,
                context=context.folder,
                contexts={**context.contexts, **{stage: f"docker-image://{tag}" for stage, tag in images.items()}},
                build_args=build_args(plan),
                output="type=image",
            )
            again = replace(request, rebuild_id=bool(self.rebuild_id))
            layered = made_image(ctx, self.engine, again, link.step)
            tag_image(self.engine, layered.id, (link.tag,))
            self._scan(replace(request, target=SCANNED), layered)
        if not self.rebuild_id:
            note_image(ctx, self.engine, link.tag, layered)

    def _scan(self, request: BuildRequest, layered: ImageInfo) -> None:
        """Scan the layer in a solve of its own, and keep the scan under the layer's diffID.

        The image that brings the scan has the layer, too: should BuildKit have made it anew, its diffID shows a
        difference.
        """
        ctx, engine = self.ctx, self.engine
        image = made_image(ctx, engine, request, self.plan.step("proof"))
        require_scanned(image.diff_ids[:-1], layered.diff_ids)
        with ctx.store.folder("scan") as folder:
            copy_files(engine, ctx.store, image, SCANS, folder)
            kept = layer_scan_path(ctx, layered.diff_ids[-1]).parent
            ctx.store.replace(kept, lambda work: _take(folder, work))
        drop_image(engine, image.id)


def upstream_layers(plan: Plan) -> tuple[Step, ...]:
    """The layers that hold only locked wheels, lowest first."""
    return tuple(step for step in plan.of_kind("layer") if step.files)


def upstream_wheels(plan: Plan) -> set[str]:
    """The contexts with wheels of upstream's layers; no stage above the layers reads one."""
    return {f"{step.name}-wheels" for step in upstream_layers(plan)}


def forget_sent(engine: Engine, plan: Plan, *, compiled: bool = False) -> None:
    """Let BuildKit drop what it was sent for steps that are done, what compilers read and wrote, and unpacked wheels.

    The store has the wheels, the image its layers, the compile cache each unit. Contexts without a name of their own
    are dropped in the embedded engine alone: in your Docker they may be yours.
    """
    own = {"target-wheels", "rehearsal-wheels", *(["context"] if engine.kind == "embedded" else [])}
    done = sent_contexts(upstream_wheels(plan) | own | ({"tools-wheels", "source"} if compiled else set()))
    forget(engine, lambda about: about in done or any(words in about for words in UNPACKED))


def _take(folder: Path, work: Path) -> None:
    for name in (SCAN, SYMBOLS):
        (folder / name).rename(work / name)
