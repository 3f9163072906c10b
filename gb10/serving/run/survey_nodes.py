"""Some machines as one: their facts, their engines, what joins them, and what is to be said of that."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gb10.core.host import Host
from gb10.errors import Gb10Error, ServeError
from gb10.serving.cluster.adapters import adapter_remarks, pair_remarks
from gb10.serving.cluster.fabric import Fabric, fabric_of
from gb10.serving.cluster.node_facts import Reading
from gb10.serving.cluster.probing import read_nodes
from gb10.serving.cluster.remarks import Remark, remarks_on
from gb10.serving.run.engine_views import EngineView, engine_views
from gb10.serving.run.fleet import unreached

GPUS = "docker run --gpus needs NVIDIA's container toolkit: sudo nvidia-ctk runtime configure --runtime=docker"


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSurvey:
    """What is known. ``failed`` are machines that could not be read; ``engines`` lacks those without an engine."""

    readings: Mapping[str, Reading]
    engines: Mapping[str, EngineView]
    fabric: Fabric
    remarks: tuple[Remark, ...]
    failed: Mapping[str, Gb10Error]

    def require(self) -> None:
        """Raise EngineError for machines that cannot be read, ServeError when they cannot serve one model together."""
        if self.failed:
            raise unreached(self.failed)
        errors = [remark for remark in self.remarks if remark.level == "error"]
        if errors:
            where = "\n".join(remark.text for remark in errors[1:])
            raise ServeError(errors[0].text, where=where or None, hint=errors[0].hint)


def survey_network(hosts: Sequence[str]) -> NodeSurvey:
    """The facts of machines, and what joins them; nothing of their engines."""
    return _judged(read_nodes(hosts), {})


def survey_nodes(host: Host, hosts: Sequence[str]) -> NodeSurvey:
    """All that is known of machines; facts and engines are asked at the same time."""
    with ThreadPoolExecutor(2) as pool:
        facts, engines = pool.submit(read_nodes, hosts), pool.submit(engine_views, host, hosts)
    return _judged(facts.result(), engines.result())


def _judged(
    found: Mapping[str, Reading | Gb10Error], engines: Mapping[str, EngineView | Gb10Error | None]
) -> NodeSurvey:
    readings = {host: reading for host, reading in found.items() if isinstance(reading, Reading)}
    views = {host: view for host, view in engines.items() if isinstance(view, EngineView)}
    failed = {host: error for host, error in [*engines.items(), *found.items()] if isinstance(error, Gb10Error)}
    fabric = fabric_of({host: reading.facts for host, reading in readings.items()})
    remarks = [*remarks_on(readings, fabric), *pair_remarks(fabric)]
    remarks += [remark for host, reading in readings.items() for remark in adapter_remarks(host, reading.facts)]
    for host, view in views.items():
        if host in readings and readings[host].facts.gpus and not view.nvidia:
            remarks.append(Remark(level="note", text=f"{host}: Docker names no NVIDIA runtime", hint=GPUS))
    remarks.sort(key=lambda remark: ("error", "warning", "note").index(remark.level))
    return NodeSurvey(readings=readings, engines=views, fabric=fabric, remarks=tuple(remarks), failed=failed)
