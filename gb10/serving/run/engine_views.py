"""The container engines of some machines: what each is, or why it cannot be used. None is started."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gb10.containers.connection import Engine
from gb10.containers.engine_host import engine_host
from gb10.containers.node import reached
from gb10.containers.reach import look
from gb10.core.host import Host
from gb10.core.ssh import HERE
from gb10.errors import Gb10Error


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineView:
    """An engine that answered. ``nvidia``: it has NVIDIA's runtime by name; without, `--gpus` may still work."""

    version: str
    nvidia: bool


def engine_views(host: Host, names: Sequence[str]) -> dict[str, EngineView | Gb10Error | None]:
    """The engine of each machine; None where none runs on this one."""

    def one(name: str) -> EngineView | Gb10Error | None:
        try:
            if name == HERE:
                found = look(host.env, host.store)
                return _view(found) if found else None
            with reached(name) as engine:
                return _view(engine)
        except Gb10Error as error:
            return error

    with ThreadPoolExecutor(max(1, len(names))) as pool:
        return dict(zip(names, pool.map(one, names), strict=True))


def _view(engine: Engine) -> EngineView:
    return EngineView(version=engine.version, nvidia="nvidia" in engine_host(engine).runtimes)
