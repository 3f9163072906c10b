"""A shell script for each node: the call of ``docker run``, by hand and without gb10. Pure."""

import shlex
from collections.abc import Callable, Sequence

from gb10.containers.container_options import ContainerOptions, command_words, run_words
from gb10.image.plan.templating import jinja
from gb10.serving.deploy.deployment import HUB_FILE, HUB_PLACE, NO_FILE, Deployment, File


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
                options=option_lines(run_words(options), shlex.quote),
                token=f'"${{{HUB_FILE}:-{NO_FILE}}}:{HUB_PLACE}:ro"',
                image=shlex.quote(options.image),
                arguments=shlex.join(arguments(options)),
            ),
        )
        for rank, options in deployment.ranks
    )


def option_lines(words: Sequence[str], quote: Callable[[str], str]) -> list[str]:
    """Options in pairs, one for each line."""
    return [f"{name} {quote(value)}" for name, value in zip(words[::2], words[1::2], strict=True)]


def arguments(options: ContainerOptions) -> tuple[str, ...]:
    """What follows the text of the first process: its name, and its own arguments."""
    return command_words(options)[3:]
