"""``cluster``: machines as one: are they ready, what joins them, what does NCCL have to know."""

from collections.abc import Sequence
from typing import Annotated

import typer

from gb10.cli.cluster_files import MARK, cluster_file, find_cluster, nodes_named
from gb10.cli.cluster_show import print_survey, survey_document
from gb10.cli.common import JsonOption, print_json, reported, verb_app, with_context
from gb10.core.ssh import HERE
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.serving.cluster.cluster_file import cluster_text
from gb10.serving.cluster.fabric import WORDS
from gb10.serving.run.survey_nodes import NodeSurvey, survey_nodes

app = verb_app(
    """Check machines, and what joins them, for a model on several.

\b
./build.py cluster init home --nodes me@spark-1,me@spark-2   # read them, and write a file with their names
./build.py cluster check home                                # what they are, what joins them, what is wrong
./build.py run deepseek-v4-flash --nodes @home

A small script goes to each machine by ssh. It needs no rights there, and changes nothing.
""",
    group=True,
)
ClusterOption = Annotated[
    str | None, typer.Option("--nodes", metavar="A,B", help="The machines by ssh ([USER@]NAME), the head first.")
]


@app.command()
@with_context
def check(
    *,
    ctx: Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A cluster. Default: this machine.")] = None,
    nodes: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show machines, what joins them, and NCCL's variables.

    \b
    ./build.py cluster check home
    ./build.py cluster check --nodes me@spark-1,me@spark-2

    For each machine: processor, driver, Docker, memory, disk and clock; for each half of its ConnectX ports: link,
    MTU, address and GID. Then the variables that `run` gives each container. What cannot be read is "unknown".
    Exit 12 when the machines cannot serve one model together, 7 when one cannot be reached.
    """
    if name and nodes:
        raise UsageError("name a cluster, or machines", hint="leave NAME or --nodes out")
    cluster = find_cluster(ctx.env, name.removeprefix(MARK)) if name else nodes_named(ctx.env, nodes)
    survey = _survey(ctx, cluster.nodes if cluster else (HERE,))
    if as_json:
        print_json(survey_document(survey))
    else:
        print_survey(ctx.env, survey)
    with reported(as_json):
        survey.require()


@app.command()
@with_context
def init(
    *,
    ctx: Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the cluster.")],
    nodes: ClusterOption = None,
    replaced: Annotated[bool, typer.Option("--replace", help="Write over the file of this name.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Read machines, and write a file with their names.

    \b
    ./build.py cluster init home --nodes me@spark-1,me@spark-2

    The file is $XDG_CONFIG_HOME/gb10/clusters/NAME.toml. `--nodes @NAME` means its machines. NCCL's variables are
    not in it: they are derived anew at each run, because interfaces and addresses change.
    """
    path, cluster = cluster_file(ctx.env, name), nodes_named(ctx.env, nodes)
    if cluster is None:
        raise UsageError("name the machines", hint=f"./build.py cluster init {name} --nodes HEAD,WORKER")
    if path.exists() and not replaced:
        raise UsageError(
            f"the cluster {name} exists", where=str(path), hint="edit the file, or write over it: --replace"
        )
    survey = _survey(ctx, cluster.nodes)
    survey.require()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(cluster_text(name, cluster.nodes), encoding="utf-8")
    ctx.reporter.say(f"{len(cluster.nodes)} nodes: {WORDS[survey.fabric.kind]}")
    for remark in survey.remarks:
        ctx.reporter.say(f"{remark.level}: {remark.text}")
    if as_json:
        print_json({"schema": "gb10/cluster-file/v1", "path": str(path), "nodes": list(cluster.nodes)})
    else:
        print(path)


def _survey(ctx: Context, hosts: Sequence[str]) -> NodeSurvey:
    with ctx.reporter.task(f"read {len(hosts)} machine{'s' * (len(hosts) != 1)}"):
        return survey_nodes(ctx, hosts)
