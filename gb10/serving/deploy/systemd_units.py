"""A unit of systemd for each node: it starts the container at boot, and again when the server ends. Pure."""

from dataclasses import replace

from gb10.containers.container_options import run_words
from gb10.image.plan.templating import jinja
from gb10.serving.deploy.deployment import HUB_FILE, HUB_PLACE, NO_FILE, Deployment, File
from gb10.serving.deploy.docker_scripts import arguments, option_lines
from gb10.serving.deploy.words import systemd_line, systemd_word


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
                options=option_lines(run_words(replace(options, restart=False)), systemd_word),
                image=systemd_word(options.image),
                launch=[systemd_line(line) for line in options.command[2].splitlines()],
                arguments=" ".join(map(systemd_word, arguments(options))),
            ),
        )
        for rank, options in deployment.ranks
    )
