"""The plan: recipe + lock + options -> a frozen, sorted DAG of steps, each with a key. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, Literal

from gb10.arch import Arch
from gb10.artifact import Artifact
from gb10.digest import digest
from gb10.errors import UsageError
from gb10.schema import Architecture, Layer, Lock, LockedDeb, LockedSdist, LockedWheel, Recipe, WheelBuild

Kind = Literal["rootfs", "tools", "wheel", "layer", "image", "proof"]
MACHINES: Final[Mapping[Architecture, str]] = {"amd64": "x86_64", "arm64": "aarch64"}
SCHEMA: Final = "gb10/plan/v1"
COMPILER: Final = tuple(
    f"inside/{name}" for name in ("aot.py", "cuda_home.py", "jit_cache.py", "launch.py", "pack_wheel.py", "stub_torch/")
)
UNPACKER: Final = tuple(
    f"debian/{name}.py"
    for name in (
        "accounts",
        "alternatives",
        "configure",
        "database",
        "linker",
        "package",
        "rootfs",
        "stanza",
        "tree",
    )
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolkit:
    """Digests of our own files that decide bytes: templates, stage scripts, kernel sets, the unpacker."""

    digests: Mapping[str, str]

    def of(self, *names: str) -> dict[str, str]:
        """The digests of these files; a name ending in ``/`` means every file below."""
        return {
            file: value
            for file, value in self.digests.items()
            if any(file == name or (name.endswith("/") and file.startswith(name)) for name in names)
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlay:
    """A directory copied over the image's root as its last layer."""

    path: str
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What the command line decides; ``build`` is the architecture of the building machine."""

    arch: Arch
    platform: str
    build: Architecture
    overlay: Overlay | None = None

    @property
    def target(self) -> Architecture:
        """The image's architecture, in Debian's and OCI's spelling."""
        for name in MACHINES:
            if self.platform == f"linux/{name}":
                return name
        raise UsageError(f"unsupported platform {self.platform!r}", hint="valid: linux/arm64, linux/amd64")


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One unit of work; ``key`` names its result, ``files`` are the locked files it consumes."""

    name: str
    kind: Kind
    key: str
    needs: tuple[str, ...] = ()
    files: tuple[Artifact, ...] = ()
    about: str = ""

    @property
    def download(self) -> int:
        """Bytes of locked files, compressed as they travel."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Every step of one image, in an order in which they can run."""

    recipe: Recipe
    lock: Lock
    options: Options
    steps: tuple[Step, ...]
    tags: tuple[str, ...]
    key: str

    def step(self, name: str) -> Step:
        """The step of that name; raises KeyError."""
        return next(step for step in self.steps if step.name == name)

    def of_kind(self, kind: Kind) -> tuple[Step, ...]:
        """The steps of one kind, in order."""
        return tuple(step for step in self.steps if step.kind == kind)

    def wheels_only(self) -> "Plan":
        """The part of the plan that the wheels need."""
        wanted = {name for step in self.of_kind("wheel") for name in (step.name, *self._closure(step))}
        return replace(self, steps=tuple(step for step in self.steps if step.name in wanted))

    def _closure(self, step: Step) -> set[str]:
        return {name for need in step.needs for name in (need, *self._closure(self.step(need)))}

    def document(self) -> dict[str, object]:
        """The plan as data (schema gb10/plan/v1); nothing in it depends on the machine or the time."""
        return {
            "schema": SCHEMA,
            "engine": self.recipe.engine,
            "version": self.recipe.version,
            "arch": str(self.options.arch),
            "platform": self.options.platform,
            "build": f"linux/{self.options.build}",
            "lock": self.lock.input_digest,
            "key": self.key,
            "tags": list(self.tags),
            "steps": [_step_document(step) for step in self.steps],
        }


def _step_document(step: Step) -> dict[str, object]:
    return {
        "name": step.name,
        "kind": step.kind,
        "key": step.key,
        "needs": list(step.needs),
        "about": step.about,
        "files": [{"filename": file.filename, "sha256": file.sha256, "size": file.size} for file in step.files],
    }


def plan_image(recipe: Recipe, lock: Lock, toolkit: Toolkit, options: Options) -> Plan:
    """The whole DAG of one image; raises UsageError when recipe and lock do not fit each other."""
    bases = (_rootfs("build", lock.debs.build[options.build], lock, toolkit),
             _rootfs("image", lock.debs.image[options.target], lock, toolkit, user=recipe.user))  # fmt: skip
    tools = _tools(lock, toolkit, options, bases[0])
    wheels = tuple(_wheel(name, recipe, lock, toolkit, options=options, tools=tools) for name in sorted(recipe.wheels))
    layers = tuple(_layer(name, files, toolkit, recipe, tools) for name, files in _churn(recipe, lock, options).items())
    layers += tuple(_built_layer(wheel, toolkit, tools) for wheel in wheels)
    image = _image(recipe, lock, toolkit, options, (bases[1], *layers))
    proof = Step(name="proof", kind="proof", needs=("image",), about="GPU code of every ELF",
                 key=digest([image.key, toolkit.of("inside/scan.py")]))  # fmt: skip
    tag = image_tag(recipe, options.arch)
    return Plan(recipe=recipe, lock=lock, options=options, steps=(*bases, tools, *wheels, *layers, image, proof),
                key=image.key, tags=(tag, f"{tag}-{image.key[:12]}"))  # fmt: skip


def image_tag(recipe: Recipe, arch: Arch) -> str:
    """``<repository>:<version>-cu130-sm121f``, the tag that moves."""
    version = recipe.version.replace("+", "-")  # a tag may not hold "+"
    return f"{recipe.repository}:{version}-cu{recipe.cuda.replace('.', '')}-sm{arch.digits}"


def _rootfs(name: str, debs: tuple[LockedDeb, ...], lock: Lock, toolkit: Toolkit, *, user: int | None = None) -> Step:
    return Step(
        name=f"base-{name}",
        kind="rootfs",
        key=digest(["rootfs", _shas(debs), user, lock.created.isoformat(), toolkit.of(*UNPACKER)]),
        files=tuple(Artifact(deb.filename, deb.sha256, deb.size) for deb in debs),
        about=f"{len(debs)} Debian packages",
    )  # fmt: skip


def _tools(lock: Lock, toolkit: Toolkit, options: Options, base: Step) -> Step:
    files = lock.wheels.tools[options.build]
    return Step(
        name="tools",
        kind="tools",
        key=digest(["tools", base.key, _shas(files), toolkit.of("inside/install.py")]),
        needs=(base.name,),
        files=_artifacts(files),
        about=f"{len(files)} wheels for the build stages",
    )


def _wheel(name: str, recipe: Recipe, lock: Lock, toolkit: Toolkit, *, options: Options, tools: Step) -> Step:
    build = recipe.wheels[name]
    sdist = lock.sdists[_project(recipe.sources[build.source].sdist)]
    headers = target_headers(build, lock, options)
    own = toolkit.of(f"kernels/{build.source}-{build.kernels}.toml", *COMPILER, *UNPACKER, "inside/install.py",
                     "templates/wheel.Dockerfile.j2")  # fmt: skip
    compilers = [_shas(lock.debs.build[options.build]), _shas(lock.wheels.tools[options.build])]
    return Step(
        name=name,
        kind="wheel",
        key=digest(["wheel", name, str(options.arch), options.target, sdist.sha256, compilers, _shas(headers), own]),
        needs=(tools.name,),
        files=_artifacts((sdist, *headers)),
        about=f"{build.method} {build.kernels} for {options.arch}",
    )


def target_headers(build: WheelBuild, lock: Lock, options: Options) -> tuple[LockedWheel, ...]:
    """The image's own wheels that a compile reads the target's headers and libraries from; raises UsageError."""
    image = {wheel.name: wheel for wheel in lock.wheels.image[options.target]}
    unknown = [name for name in build.headers if name not in image]
    if unknown:
        raise UsageError(f"headers from wheels that the image does not hold: {', '.join(unknown)}",
                         hint="name wheels of the lock in the recipe's wheels section")  # fmt: skip
    return tuple(image[name] for name in build.headers)


def _layer(name: str, wheels: tuple[LockedWheel, ...], toolkit: Toolkit, recipe: Recipe, tools: Step) -> Step:
    return Step(
        name=f"layer-{name}",
        kind="layer",
        key=digest(["layer", tools.key, _shas(wheels), recipe.python, toolkit.of("inside/install.py")]),
        needs=(tools.name,),
        files=_artifacts(wheels),
        about=f"{len(wheels)} wheels",
    )


def _built_layer(wheel: Step, toolkit: Toolkit, tools: Step) -> Step:
    return Step(
        name=f"layer-{wheel.name}",
        kind="layer",
        key=digest(["layer", tools.key, wheel.key, toolkit.of("inside/install.py")]),
        needs=(tools.name, wheel.name),
        about="the wheel built here",
    )


def _image(recipe: Recipe, lock: Lock, toolkit: Toolkit, options: Options, needs: tuple[Step, ...]) -> Step:
    settings = recipe.model_dump(
        mode="json", include={"engine", "version", "env", "user", "workdir", "entrypoint", "command"}
    )
    own = toolkit.of("templates/image.Dockerfile.j2", "inside/settings.py")
    overlay = options.overlay.digest if options.overlay else None
    return Step(
        name="image",
        kind="image",
        key=digest(["image", str(options.arch), options.platform, lock.created.isoformat(), settings, own, overlay,
                    [step.key for step in needs]]),
        needs=tuple(step.name for step in needs),
        about=f"{recipe.engine} {recipe.version} {options.platform}",
    )  # fmt: skip


def _churn(recipe: Recipe, lock: Lock, options: Options) -> dict[str, tuple[LockedWheel, ...]]:
    """Each locked wheel in the first layer that matches its name, else in the one that takes the rest."""
    classes: dict[str, list[LockedWheel]] = {layer.name: [] for layer in recipe.layers}
    for wheel in sorted(lock.wheels.image[options.target], key=lambda wheel: wheel.name):
        classes[_class_of(wheel.name, recipe.layers)].append(wheel)
    empty = [name for name, wheels in classes.items() if not wheels]
    if empty:
        raise UsageError(f"layers without a wheel: {', '.join(empty)}", hint="remove them from the recipe's layers")
    return {name: tuple(wheels) for name, wheels in classes.items()}


def _class_of(name: str, layers: Iterable[Layer]) -> str:
    rest = None
    for layer in layers:
        if any(fnmatchcase(name, pattern) for pattern in layer.packages):
            return layer.name
        rest = layer.name if layer.rest else rest
    if rest is None:
        raise UsageError(
            f"no layer takes {name}", hint="name it in one of the recipe's layers, or add rest: true to one"
        )
    return rest


def _project(pinned: str) -> str:
    return pinned.split("==", 1)[0]


def _shas(files: Iterable[LockedDeb | LockedWheel | LockedSdist]) -> list[str]:
    return [file.sha256 for file in files]


def _artifacts(files: Iterable[LockedWheel | LockedSdist]) -> tuple[Artifact, ...]:
    return tuple(Artifact(file.filename, file.sha256, file.size) for file in files)
