"""A recipe and a command line become a service: for ``run``, for benchmarks that launch it, for other launchers' files.

A recipe is loaded, rendered and sized once. Only version 1 is sized by a rendering of its own: its command depends on
the number of nodes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from gb10.containers.container_options import HostAccess
from gb10.core.reporter import Reporter
from gb10.core.ssh import HERE
from gb10.errors import UsageError
from gb10.image.mods.read import FoundMod, find_mod
from gb10.image.request.recipe_mods import MODS, Release, foreign_mods, load_file, mods_of, surely_foreign
from gb10.models.issue import Issue, errors_of, lines_of
from gb10.models.lint.fit import fit_of
from gb10.models.load.host_access import host_request
from gb10.models.load.model_recipe import ModelRecipe, own_section
from gb10.models.memory.model import Model
from gb10.models.needs.image_need import image_need, key_of
from gb10.models.recipe_privileges import Power, model_files, replaced_by_run, unsupported_by_run
from gb10.models.registries.recipe_file import RecipeFile, find_recipe
from gb10.models.registries.trust import (
    is_below,
    lines_of_powers,
    mods_here,
    powers_here,
    require_allowed,
    require_trust,
)
from gb10.models.render.rendered import MODELS, RenderedRecipe, RenderRequest
from gb10.models.render.rendering import refused, render_recipe
from gb10.models.render.sparkrun import VLLM_KIND
from gb10.models.render.untrusted_command import judge_rendered
from gb10.serving.cluster.fabric import PATCHED
from gb10.serving.run.host_paths import with_node_paths
from gb10.serving.run.notes import made_image
from gb10.serving.run.ports import on_free_ports
from gb10.serving.run.service import ContainerSettings, Rank, Service, service_of
from gb10.serving.run.service_memory import cap_lines, in_script, with_memory
from gb10.serving.run.service_nodes import Node, alone, nodes_by_name, nodes_of, parse_nodes, with_network
from gb10.serving.weights.hub_cache import folder_name
from gb10.serving.weights.model_lock import WeightsLock, lock_file, read_weights

if TYPE_CHECKING:
    from gb10.containers.images import ImageInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceRequest:
    """What a command line asks of a recipe's service."""

    recipe: str = ""
    """A file, a name of ours, or ``@REGISTRY/NAME``."""
    render: RenderRequest = field(default_factory=RenderRequest)
    """Parameters, variant and more arguments of the engine; its nodes come from ``nodes``."""
    nodes: str | None = None
    """As typed: ``A,B`` or ``@CLUSTER``; None is this machine."""
    image: str | None = None
    """In place of the recipe's."""
    name: str | None = None
    """Of the service, in place of the recipe's."""
    trust: bool = False
    """What the recipe of somebody else does beside its engine is allowed."""
    allow: tuple[str, ...] = ()
    """What it gets of the host, as ``KEY=VALUE``."""
    allow_paths: tuple[str, ...] = ()
    """Folders of the nodes that it may get."""
    even_if_too_large: bool = False
    """A model that does not fit by our estimate is started, with PyTorch's cap and the guard of memory."""
    ignore_unsupported: bool = False
    """What the recipe asks for and gb10 cannot do is said, and no error."""
    containers: ContainerSettings = field(default_factory=ContainerSettings)
    cap: bool | None = None
    """Whether PyTorch's memory is capped; None where its release is known to take a cap."""
    patience: float = 7200.0
    """Seconds until it must be healthy."""
    replace: bool = False
    """A service of this name that runs otherwise is stopped first."""
    dry_run: bool = False
    """It is shown, not started: what needs trust is said."""
    detach: bool = False
    """The caller returns when it is healthy; a process of its own watches several ranks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeSource:
    """A recipe as its file has it; without a ``file`` it is the user's own."""

    recipe: ModelRecipe
    file: RecipeFile | None = None
    weights: WeightsLock | None = None
    """The lock of weights that were pulled."""
    sizes: Model | None = None
    """The model's sizes, where its files were read."""


def load_source(env: Mapping[str, str], name: str) -> RecipeSource:
    """The recipe of a file, a name of ours, or ``@REGISTRY/NAME``. Raises UsageError, FetchError."""
    file = find_recipe(name)
    recipe, sizes = load_file(file), None
    if (recipe.model or "").startswith("/"):
        from gb10.image.request.model_sizes import folder_sizes  # noqa: PLC0415 - a sixth of a second for others

        sizes = folder_sizes(recipe)
    return RecipeSource(recipe=recipe, file=file, weights=read_weights(lock_file(env, file)), sizes=sizes)


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedService:
    """A service, and what it was made of."""

    request: ServiceRequest
    source: RecipeSource
    recipe: ModelRecipe
    """The recipe with the image that it runs."""
    rendered: RenderedRecipe
    addresses: tuple[str, ...]
    """Of the nodes that it was rendered for; none is this machine."""
    service: Service
    powers: tuple[Power, ...] = ()
    """What it may do that the user has not allowed; then it must not run."""

    @property
    def issues(self) -> tuple[Issue, ...]:
        """What a user should know."""
        return self.rendered.issues

    @property
    def read_at_start(self) -> tuple[str, ...]:
        """What only the nodes can tell, and a dry run does not ask them."""
        hosts, mounts = self.service.hosts, self.service.settings.host.mounts
        found = []
        if len(hosts) > 1:
            found.append(f"the fast links of {', '.join(hosts)}: NCCL's interfaces, RDMA devices, ports to meet")
        found += [f"whether {', '.join(hosts)} has {one.source}" for one in mounts if one.optional]
        return tuple(found)

    def require_trust(self, more: Sequence[Power] = ()) -> None:
        """Raise UsageError for what the user has not allowed, with every part of it, and for what cannot be done."""
        recipe, file, request = self.source.recipe, self.source.file, self.request
        if file is not None:
            require_trust(recipe, file, tuple(dict.fromkeys((*self.powers, *more))), trust=request.trust)
        self._require_supported()
        self._require_allowed()

    def _require_supported(self) -> None:
        recipe, request = self.source.recipe, self.request
        unsupported = unsupported_by_run(recipe, self.rendered.serve)
        if unsupported and not request.ignore_unsupported:
            where = "\n".join(f"{recipe.file}:{one.line}: {one.text}" for one in unsupported)
            hint = "change the recipe, or start it without: --ignore-unsupported"
            raise UsageError(f"{recipe.name} asks for what gb10 cannot do", where=where, hint=hint)

    def _require_allowed(self) -> None:
        recipe, file, request = self.source.recipe, self.source.file, self.request
        if file is not None:
            files = [mount for mount in self.service.settings.host.mounts if mount.optional]
            require_allowed(recipe, file, host_request(recipe), files, allowed=request.allow, paths=request.allow_paths)

    def say_refused(self, reporter: Reporter) -> None:
        """Print why a start would be refused, for a dry run."""
        for require in (self._require_supported, self._require_allowed):
            try:
                require()
            except UsageError as error:
                for line in (error.message, *(error.where or "").splitlines(), error.hint or ""):
                    reporter.say(f"the start is refused: {line}")

    def on(self, nodes: Sequence[Node], *, step: int = 0) -> "PreparedService":
        """The same on these nodes; ``step`` moves the ports by which ranks meet on. Raises UsageError."""
        addresses = tuple(node.address for node in nodes) if self.request.nodes else ()
        rendered = self.rendered
        if step or addresses != self.addresses:
            render = replace(self.request.render, nodes=addresses, step=step)
            rendered = render_locked(self.recipe, render, self.source.weights)
        service, rendered, powers = _served(
            self.request, self.recipe, rendered, nodes, settings=self.service.settings, file=self.source.file
        )
        return replace(self, rendered=rendered, addresses=addresses, service=service, powers=powers)

    def seeing_weights(self, reporter: Reporter) -> "PreparedService":
        """The same whose containers see the pulled files that each node has; without a lock as it is."""
        return replace(self, service=with_weights(reporter, self.service, self.source.recipe, self.source.weights))

    def placed(self, reporter: Reporter, env: Mapping[str, str], image: "ImageInfo") -> "PreparedService":
        """The same with what the nodes' network and its image need. Raises EngineError, ServeError, UsageError."""
        cluster = parse_nodes(env, self.request.nodes) or alone(HERE)
        set_here = {one.partition("=")[0] for one in image.environment} | {*self.service.ranks[0].container.environment}
        nodes = with_network(
            reporter, cluster.model_copy(update={"nodes": self.service.hosts}), patched=PATCHED in set_here
        )
        return self._moved(reporter, nodes, 0)

    def with_folders(self, reporter: Reporter) -> "PreparedService":
        """The same with the folders that its nodes have, links followed. Raises EngineError, UsageError."""
        foreign = self.source.file is not None and not self.source.file.trusted
        allowed = self.request.allow_paths if foreign else None
        found = with_node_paths(reporter, self.service, allowed=allowed)
        return replace(self, service=replace(found, asked=self.service.digest))

    def meeting_free(self, reporter: Reporter) -> "PreparedService":
        """The same with ports that are free for its ranks to meet. Raises UsageError."""
        nodes = [rank.node for rank in self.service.ranks]
        tried: list[PreparedService] = []

        def moved(step: int) -> Service:
            tried.append(self._moved(reporter, nodes, step))
            return tried[-1].service

        found = on_free_ports(reporter, self.service, moved)
        return next((one for one in tried if one.service is found), self)

    def _moved(self, reporter: Reporter, nodes: Sequence[Node], step: int) -> "PreparedService":
        """On these nodes, with the digest of the service as it was asked for."""
        found = self.on(nodes, step=step)
        if not self.request.dry_run:
            found.require_trust()
        found = found.seeing_weights(reporter)
        return replace(found, service=replace(found.service, asked=self.service.digest))

    def mods(self, reporter: Reporter, image: "ImageInfo") -> list[FoundMod]:
        """The mods that run in a container of this image before the server. Raises UsageError, as mods_to_run does."""
        if self.source.file is None:
            return []
        return mods_to_run(reporter, self.source.recipe, self.source.file, image, trust=self.request.trust)


def prepare_service(
    reporter: Reporter,
    env: Mapping[str, str],
    request: ServiceRequest,
    *,
    source: RecipeSource | None = None,
) -> PreparedService:
    """The service of a command line, to run here; ``source`` where its recipe was loaded before. Raises UsageError.

    What a user should know is said. No node is asked yet. A recipe of somebody else that needs trust has none, but
    for a dry run. An image that was made for the recipe counts, and so do weights that were pulled.
    """
    source = source or load_source(env, request.recipe)
    nodes = nodes_by_name(parse_nodes(env, request.nodes) or alone(HERE))
    made = image_made(env, source.recipe, request.image)
    found = prepare_recipe(reporter, source, request, nodes, made=made)
    if not request.dry_run:
        found.require_trust()
    for line in lines_of_powers(source.recipe, found.powers):
        reporter.say(f"needs --trust: {line}")
    if request.dry_run:
        found.say_refused(reporter)
    foreign = source.file is not None and not source.file.trusted and not request.trust
    if foreign and "--trust-remote-code" in (source.recipe.command or ""):
        reporter.say("the recipe is another's: code of its model runs (--trust-remote-code), your Hub token at hand")
    shown = lines_of([issue for issue in found.issues if issue.code != "mods-not-applied"])
    for line in (*shown, *cap_lines(found.service)):
        reporter.say(line)
    if request.containers.restart and len(found.service.ranks) > 1:
        hint = "let systemd start all of them again: docs/run.md"
        raise UsageError("--restart is for one node: Docker would start a rank without the others", hint=hint)
    return found.seeing_weights(reporter)


def prepare_elsewhere(reporter: Reporter, env: Mapping[str, str], request: ServiceRequest) -> PreparedService:
    """The service of a command line for another launcher, on nodes by their names alone. Raises UsageError."""
    return prepare_recipe(reporter, load_source(env, request.recipe), request, nodes_of(hosts_of(request.nodes)))


def hosts_of(nodes: str | None) -> tuple[str, ...]:
    """The names of ``A,B``."""
    return tuple(node.strip() for node in (nodes or "").split(",") if node.strip())


def prepare_recipe(
    reporter: Reporter, source: RecipeSource, request: ServiceRequest, nodes: Sequence[Node], *, made: str | None = None
) -> PreparedService:
    """The service of a recipe on these nodes; what is known of its memory is said. ``made``: an image that it runs.

    Raises UsageError for a recipe that does not fit into its nodes, for one with a mistake, or without an image.
    """
    recipe = runs = source.recipe
    request = replace(request, image=request.image or made)
    if request.image:
        runs = replace(recipe, values={**recipe.values, "container": request.image})
    addresses = tuple(node.address for node in nodes) if request.nodes else ()
    render = replace(request.render, nodes=addresses)
    rendered = render_locked(runs, render, source.weights)
    sized = None if recipe.format == "v1" else replace(rendered, image=recipe.container)
    fit = fit_of(recipe, request.render, sized, sizes=source.sizes)
    issues = fit.issues(lenient=request.even_if_too_large)
    if errors_of(issues):
        raise refused(recipe, issues, "run --even-if-too-large starts it all the same: the estimate may be wrong")
    for line in lines_of(issues):
        reporter.say(line)
    if made and made != recipe.container:
        other = f"; --image {recipe.container} runs the one that it names" if recipe.container else ""
        reporter.say(f"{recipe.name}: it runs {made}, which image --recipe made{other}")
    settings = with_memory(reporter, fit, request.containers, runs.container or "", cap=request.cap)
    capped = in_script(runs, settings.torch)
    if capped is not runs:
        runs, rendered = capped, render_locked(capped, render, source.weights)
    if errors_of(runs.issues):
        raise refused(runs, runs.issues)
    settings = replace(settings, host=_host_access(reporter, source, request, rendered))
    if not runs.container:  # sparkrun takes an image of its own choice, by a tag that moves
        raise UsageError(f"{runs.name} names no image", where=runs.file, hint="name one: --image REF")
    service, rendered, powers = _served(request, runs, rendered, nodes, settings=settings, file=source.file)
    return PreparedService(
        request=request,
        source=source,
        recipe=runs,
        rendered=rendered,
        addresses=addresses,
        service=service,
        powers=powers,
    )


def _host_access(
    reporter: Reporter, source: RecipeSource, request: ServiceRequest, rendered: RenderedRecipe
) -> HostAccess:
    """What the recipe's containers get of their nodes; what gb10 does otherwise, or not at all, is said.

    A named volume of a recipe of others is one of its own: it reads nothing that another service left in a volume.
    """
    recipe = source.recipe
    command = rendered.serve or recipe.command or ""
    if request.ignore_unsupported or request.dry_run:
        for one in unsupported_by_run(recipe, command):
            reporter.say(f"{recipe.file}:{one.line}: not done: {one.text}")
    for one in replaced_by_run(recipe):
        reporter.say(f"{recipe.file}:{one.line}: otherwise here: {one.text}")
    access = host_request(recipe).access
    if source.file is not None and not source.file.trusted:
        open_to = {one.removeprefix("volumes=").partition(":")[0] for one in request.allow}
        own = {mount.source for mount in access.mounts if mount.is_volume} - open_to
        for name in sorted(own):
            reporter.say(
                f"the volume {name} is {recipe.stem}-{name}: a recipe of others shares none (--allow volumes=…)"
            )
        access = replace(
            access,
            mounts=tuple(
                replace(mount, source=f"{recipe.stem}-{mount.source}") if mount.source in own else mount
                for mount in access.mounts
            ),
        )
    taken = [mount.target for mount in access.mounts]
    files = (one for one in model_files(command, recipe.model) if not is_below(one.target, taken))
    return replace(access, mounts=(*access.mounts, *files))


def _served(
    request: ServiceRequest,
    recipe: ModelRecipe,
    rendered: RenderedRecipe,
    nodes: Sequence[Node],
    *,
    settings: ContainerSettings,
    file: RecipeFile | None,
) -> tuple[Service, RenderedRecipe, tuple[Power, ...]]:
    """The service of what was rendered, that with the words of a doubted command, and its powers. Raises UsageError."""
    if errors_of(rendered.issues):
        raise refused(recipe, rendered.issues)
    if not rendered.ranks:
        least = recipe.values.get("min_nodes")
        many = f"{least}" if isinstance(least, int) and least > 1 else "several"
        raise UsageError(f"{recipe.name} runs on {many} nodes", hint="name them, the head first: --nodes HEAD,WORKER,…")
    powers: tuple[Power, ...] = ()
    if file is not None and not request.trust:
        mods = surely_foreign(recipe, file)
        powers = powers_here(recipe, file, mods, rendered, chosen_image=bool(request.image))
        words = () if file.trusted else judge_rendered(recipe, rendered).containers
        rendered = replace(rendered, containers=words) if words else rendered
    service = service_of(
        name=request.name or recipe.stem,
        model=recipe.model,
        rendered=rendered,
        nodes=nodes,
        mods=recipe.mods,
        settings=settings,
        answers=own_section(recipe).answers,
    )
    return service, rendered, powers


def image_made(env: Mapping[str, str], recipe: ModelRecipe, image: str | None) -> str | None:
    """The image that ``image --recipe`` made for what a recipe needs; None where the user names one.

    Raises UsageError for a note that is broken.
    """
    if image:
        return None
    try:
        key = key_of(image_need(recipe))
    except UsageError:
        return None  # gb10 builds no image for it
    return made_image(env, key)


ENGINES: Final = (*VLLM_KIND, "sglang")
"""Runtimes that take a commit by --revision."""
REVISION: Final = re.compile(r"(?<![\w-])--revision\b")
SERVED_NAME: Final = re.compile(r"(?<![\w-])--served-model-name\b")
"""vLLM takes the model's folder for its name when it is offline."""
OFFLINE: Final = "HF_HUB_OFFLINE"
MORE: Final = re.compile(r"--(?:tokenizer(?:-path)?|hf-config-path|lora-modules|lora-paths)[=\s]")
"""Options that name other repositories of the Hub, which were not pulled."""


def render_locked(recipe: ModelRecipe, request: RenderRequest, lock: WeightsLock | None) -> RenderedRecipe:
    """The recipe as it runs, at the commit that was pulled; another launcher's rules and another revision stay."""
    rendered = render_recipe(recipe, request)
    served = lock.models[0] if lock else None
    line = rendered.serve or ""
    if served is None or request.peer or request.lenient or errors_of(rendered.issues):
        return rendered
    if rendered.runtime not in ENGINES and recipe.format != "v1":
        return rendered
    if REVISION.search(line) or served.repo not in line:
        return rendered
    name = () if SERVED_NAME.search(line) or rendered.runtime == "sglang" else ("--served-model-name", served.repo)
    added = (*request.arguments, "--revision", served.revision, *name)
    return render_recipe(recipe, replace(request, arguments=added))


def with_weights(reporter: Reporter, service: Service, recipe: ModelRecipe, lock: WeightsLock | None) -> Service:
    """The service whose containers see the files that each node has, and ask no Hub; without a lock as it is."""
    if lock is None:
        return service
    return replace(service, ranks=tuple(_with_weights(reporter, rank, recipe, lock) for rank in service.ranks))


def _with_weights(reporter: Reporter, rank: Rank, recipe: ModelRecipe, lock: WeightsLock) -> Rank:
    host = rank.node.host
    place = lock.place(host)
    if place is None:
        reporter.say_once(
            f"{host} has no copy of the weights, and its server downloads them: recipe pull --host {host}"
        )
        return rank
    if lock.models[0].repo not in rank.container.command:
        reporter.say_once(f"{lock.models[0].repo} was pulled, and another model is served: its server downloads that")
        return rank
    env = {name: str(value).rstrip("/") for name, value in recipe.env.items()}
    hub = env.get("HF_HUB_CACHE") or f"{env.get('HF_HOME') or MODELS[1]}/hub"  # where its engine looks
    mounts = {f"{place.cache}/{name}": f"{hub}/{name}" for name in (folder_name(one.repo) for one in lock.models)}
    offline = {} if OFFLINE in recipe.env or MORE.search(rank.container.command) else {OFFLINE: "1"}
    environment = {**offline, **rank.container.environment}
    return replace(rank, container=replace(rank.container, environment=environment, mounts=mounts))


TITLE: Final = "org.opencontainers.image.title"
VERSION: Final = "org.opencontainers.image.version"
KEY: Final = "io.github.gb10.plan.key"


def mods_to_run(
    reporter: Reporter, recipe: ModelRecipe, file: RecipeFile, image: "ImageInfo", *, trust: bool
) -> list[FoundMod]:
    """The recipe's mods, in order; what the release of an image of ours does not need is left out, with its reason.

    An image of others has no release: it uses the same labels for other things. Raises UsageError for a mod that is
    neither ours nor beside the recipe, and for one of somebody else, without trust.
    """
    labels = image.labels
    release = Release()
    if KEY in labels:
        release = Release(engine=labels.get(TITLE, "").partition(" ")[0], version=labels.get(VERSION, ""))
    require_trust(recipe, file, mods_here(recipe, file, foreign_mods(recipe, file, release)), trust=trust)
    found = []
    for mod in mods_of(recipe, file):
        reason = mod.is_left_out(release)
        if reason:
            reporter.say(f"the mod {mod.name} is left out: {reason}")
        elif mod.ours or mod.beside:
            if mod.replaced:
                reporter.say(mod.replaced)
            found.append(find_mod(MODS, mod.ours or f"{mod.beside}/"))
        else:
            hint = "put its folder beside the recipe, or remove it"
            raise UsageError(f"the mod {mod.written[:80]!r} is neither beside the recipe nor one of ours", hint=hint)
    return found
