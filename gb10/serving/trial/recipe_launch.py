"""A model recipe launched as ``run`` does it, to be measured, and ended afterwards on all of its nodes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from gb10.containers.docker_containers import tail_of
from gb10.containers.images import find_image
from gb10.errors import Gb10Error
from gb10.image.context import Context
from gb10.serving.doctor.masking import masked, masked_environment
from gb10.serving.run.existing import of_service, services_on
from gb10.serving.run.fleet import Fleet, open_fleet
from gb10.serving.run.running import Wish, running
from gb10.serving.run.service import Service
from gb10.serving.run.stopping import end_service
from gb10.serving.run.watching import LINES, Watched
from gb10.serving.trial.launcher import Launched, Launcher


def by_recipe(ctx: Context, service: Service, wish: Wish, logs: Path) -> Launcher:
    """The launcher of a service. A container of its name, which a killed run left behind, is ended first.

    What each rank printed is kept in files whose names begin as ``logs``.
    """

    @contextmanager
    def launch() -> Iterator[Launched]:
        with open_fleet(ctx, service.hosts) as fleet:
            left = of_service(services_on(fleet), service.name)
            if left:
                end_service(fleet, left, service.name)
            placed: list[Service] = []

            def meet(asked: Service) -> Service:
                placed.append(wish.meet(asked))
                return placed[-1]

            asked = replace(wish, meet=meet, keep=partial(keep_ranks, logs))
            with running(ctx, fleet, service, asked) as watched:
                if watched is None:
                    raise AssertionError("the service was ended, and runs")
                try:
                    yield _launched(placed[-1], fleet, watched)
                finally:
                    watched.end()

    return launch


def keep_ranks(logs: Path, found: Mapping[str, Sequence[str]]) -> None:
    """A file for each rank, without secrets."""
    logs.parent.mkdir(parents=True, exist_ok=True)
    for rank, lines in found.items():
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", rank)
        text = masked("\n".join(lines))
        logs.with_name(f"{logs.name}-{name}.log").write_text(f"{text}\n", encoding="utf-8")


def _launched(service: Service, fleet: Fleet, watched: Watched) -> Launched:
    images = {host: find_image(engine, service.image) for host, engine in fleet.items()}
    head = next(iter(fleet))

    def log() -> Sequence[str]:
        try:
            return tail_of(fleet[head], watched.containers[head], LINES)
        except Gb10Error as error:
            return [str(error.message)]

    def ended() -> str:
        death = watched.look()
        return f"rank {death.rank} on {death.host}: {death.how}" if death else ""

    return Launched(
        url=service.endpoint,
        facts={
            "image": service.image,
            "digest": {host: image.id for host, image in images.items() if image},
            "command": {rank.node.host: masked(rank.container.command) for rank in service.ranks},
            "environment": {rank.node.host: masked_environment(rank.container.environment) for rank in service.ranks},
        },
        log=log,
        logs=watched.logs,
        ended=ended,
    )
