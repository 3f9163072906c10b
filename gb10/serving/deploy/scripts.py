"""A shell script for each node: the call of ``docker run``, by hand and without gb10. Pure."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from gb10.containers.container_options import ContainerOptions, command_words, run_options
from gb10.image.plan.render import jinja
from gb10.serving.deploy.deployment import HUB_FILE, HUB_PLACE, NO_FILE, Deployment, File
from gb10.serving.deploy.text import systemd_line, systemd_word


def docker_files(deployment: Deployment) -> tuple[File, ...]:
    """The scripts, the head's first."""
    template = jinja(tuple(deployment.templates.items())).get_template("docker.sh.j2")
    return tuple(
        File(
            name=f"{options.name}.sh",
            host=rank.node.host,
            text=template.render(
                title=deployment.title(rank),
                file=f"{options.name}.sh",
                launch=options.command[2],
                options=option_lines(run_options(options), shlex.quote),
                token=f'"${{{HUB_FILE}:-{NO_FILE}}}:{HUB_PLACE}:ro"',
                image=shlex.quote(options.image),
                arguments=shlex.join(arguments(options)),
            ),
        )
        for rank, options in deployment.ranks
    )


def option_lines(options: Sequence[Sequence[str]], quote: Callable[[str], str]) -> list[str]:
    """Options with their values, one for each line."""
    return [" ".join((name, *map(quote, value))) for name, *value in options]


def arguments(options: ContainerOptions) -> tuple[str, ...]:
    """What follows the text of the first process: its name, and its own arguments."""
    return command_words(options)[3:]


def systemd_files(deployment: Deployment) -> tuple[File, ...]:
    """The units, the head's first. systemd restarts the container, so Docker must not."""
    template = jinja(tuple(deployment.templates.items())).get_template("unit.service.j2")
    return tuple(
        File(
            name=f"{options.name}.service",
            host=rank.node.host,
            text=template.render(
                title=deployment.title(rank).replace("%", "%%"),
                name=options.name,
                service=deployment.service.name,
                token_file=HUB_FILE,
                no_token=NO_FILE,
                token_place=HUB_PLACE,
                options=option_lines(run_options(replace(options, restart=False)), systemd_word),
                image=systemd_word(options.image),
                launch=[systemd_line(line) for line in options.command[2].splitlines()],
                arguments=" ".join(map(systemd_word, arguments(options))),
            ),
        )
        for rank, options in deployment.ranks
    )
