"""What a text is that is no model recipe: launches of other tools, or a file that is named for what it is. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePath
from typing import Final

from gb10.models.launches.compose_services import compose_launches, variables_of
from gb10.models.launches.container_launch import ContainerLaunch, interpolated, mapping
from gb10.models.launches.pod_objects import pod_launches
from gb10.models.launches.serving_objects import completed, ray_launches
from gb10.models.load.known_keys import KNOWN, closest
from gb10.models.load.safe_yaml import SafeDocument, UnreadableError, read_yaml

STRONG: Final = ("recipe_version", "model", "command", "container")
"""Keys of the top level by which a file is meant as a recipe, also where one is misspelt."""
OTHERS: Final = frozenset(
    (
        *("services", "apiVersion", "kind", "meta", "jobs", "compatible_strategies", "repository", "applications"),
        "servingEngineSpec",
    )
)
"""Keys that a recipe never has."""
YAML: Final = (".yaml", ".yml")
DOCUMENT: Final = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)
DIFF: Final = re.compile(r"^(?:diff --git |--- \S.*\n\+\+\+ \S)", re.MULTILINE)
LOG: Final = re.compile(
    r"\W{0,4}(?:\w{1,32} )?(?:(?:INFO|WARNING|ERROR|DEBUG)\b|\d{4}-\d\d-\d\d[T ]\d\d:|\(\w{1,32} pid=)"
)
HEREDOC: Final = re.compile(
    r"<<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w{1,40})(?P=quote)[^\n]*\n"
    r"(?P<body>(?:[^\n]*\n){0,2000}?)[ \t]*(?P=end)[ \t]*(?=\n|\Z)"
)
"""A text in a script, up to the line that is its end alone; between quotes no variable is filled in."""
MOST: Final = 100
"""Documents of a file."""
KINDS: Final[Sequence[tuple[frozenset[str], str]]] = (
    (frozenset(("on", "jobs")), "a workflow of GitHub Actions"),
    (frozenset(("True", "jobs")), "a workflow of GitHub Actions"),  # YAML 1.1 reads `on` so
    (frozenset(("engine", "version", "repository")), "an image recipe of gb10"),
    (frozenset(("stages",)), "a pipeline of GitLab"),
    (frozenset(("repos",)), "a list of hooks of pre-commit"),
    (frozenset(("model_list",)), "a configuration of LiteLLM"),
    (frozenset(("apiVersion", "name", "version")), "a chart of Helm"),
    (
        frozenset(("servingEngineSpec",)),
        "values of the Helm chart of vLLM's production stack, whose templates were not read",
    ),
    (frozenset(("image", "resources")), "values of a chart of Helm"),
    (frozenset(("resources",)), "a kustomization"),
    (frozenset(("dependencies", "channels")), "an environment of conda"),
    (frozenset(("openapi",)), "a description of an HTTP interface"),
    (frozenset(("version", "updates")), "a configuration of Dependabot"),
    (frozenset(("meta", "compatible_strategies")), "a recipe of vLLM's own project; `recipe import` reads it"),
    (frozenset(("_model_profile",)), "a profile of Ansible for SGLang; `recipe import` reads it"),
    (frozenset(("sglang_model_profiles",)), "a profile of Ansible for SGLang; `recipe import` reads it"),
)
"""What a mapping with these keys is."""
SHOWN: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Launches:
    """``what`` names the file: ``a compose file``. ``found`` are its containers, none where it is another file."""

    what: str
    found: tuple[ContainerLaunch, ...] = ()

    @property
    def servers(self) -> tuple[ContainerLaunch, ...]:
        """The containers that start a server of an engine that is known."""
        return tuple(one for one in self.found if one.engine)


def launches_of(text: str, file: str, beside: Callable[[], str] = str) -> Launches | None:
    """What a text is; None for one that is meant as a model recipe, or that no YAML reader takes.

    ``beside`` gives the text of the ``.env`` in the folder of a compose file.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    named_yaml = PurePath(file).suffix.lower() in YAML
    if not named_yaml and not _is_mapping(text):
        from gb10.models.launches.shell_servers import shell_servers  # noqa: PLC0415 - for scripts

        runs = _runs(text) or (() if DIFF.search(text) else shell_servers(text))
        piped = None if runs else _piped(text)
        return piped or Launches(what="a script" if runs else _text_kind(text), found=runs)
    try:
        documents = list(_documents(text))
    except UnreadableError:
        return None
    values = [one.value for _, one in documents]
    if all(value is None for value in values):
        return None
    if len(values) == 1 and isinstance(values[0], Mapping) and _meant_as_recipe(values[0]):
        return None
    named = _launches_by_form(documents, beside)
    runs = () if named_yaml or named.found else _runs(text)
    return Launches(what="a script", found=runs) if runs else named


def _runs(text: str) -> tuple[ContainerLaunch, ...]:
    from gb10.models.launches.docker_run_lines import docker_runs  # noqa: PLC0415 - for scripts

    return docker_runs(text)


def _piped(text: str) -> Launches | None:
    """The objects of Kubernetes that a script hands to another program: ``cat <<EOF | kubectl apply -f -``."""
    from gb10.models.launches.shell_words import variables  # noqa: PLC0415 - for scripts

    known, documents = variables(text), list[tuple[int, SafeDocument]]()
    for found in islice(HEREDOC.finditer(text), MOST):
        body = (
            found["body"]
            if found["quote"]
            else "\n".join(interpolated(line, known) for line in found["body"].split("\n"))
        )
        first = text.count("\n", 0, found.start("body"))
        try:
            documents += [(first + line, one) for line, one in _documents(body)]
        except UnreadableError:
            continue
    named = _launches_by_form(documents) if documents else None
    return Launches(what=f"a script with {named.what}", found=named.found) if named and named.found else None


def _text_kind(text: str) -> str:
    """What a text is that is no YAML and starts no container."""
    if DIFF.search(text):
        return "a diff, and it starts no server"
    lines = text.splitlines()[:100]
    if sum(LOG.match(one) is not None for one in lines) * 2 > len(lines):
        return "a log, and it starts no server"
    return "no file of YAML, and it has no `docker run` and starts no server"


def _is_mapping(text: str) -> bool:
    """Whether a text is YAML of mappings; a call with JSON in it is none, though YAML reads it as a key and a value."""
    from gb10.models.launches.docker_run_lines import START  # noqa: PLC0415 - for a file that is not named YAML
    from gb10.models.launches.shell_servers import SERVER  # noqa: PLC0415 - the same

    try:
        values = [one.value for _, one in _documents(text)]
    except UnreadableError:
        return False
    mappings = [value for value in values if isinstance(value, Mapping)]
    keys = [str(key) for value in mappings for key in value]
    called = any(START.search(key) or SERVER.search(key) for key in keys)
    return bool(mappings) and not called and all(value is None or isinstance(value, Mapping) for value in values)


def _documents(text: str) -> Iterator[tuple[int, SafeDocument]]:
    """Each document with its first line, from 0; empty ones are left out. Raises UnreadableError."""
    starts = [0, *(found.start() for found in DOCUMENT.finditer(text))]
    for start, end in list(zip(starts, [*starts[1:], len(text)], strict=True))[:MOST]:
        part = text[start:end]
        if part.strip().strip("-").strip():
            yield text.count("\n", 0, start), read_yaml(part)


def _meant_as_recipe(values: Mapping[object, object]) -> bool:
    keys = {str(key) for key in values}
    if keys & OTHERS:
        return False
    return bool(keys & {*STRONG}) or sum(closest(key, STRONG) is not None or key in KNOWN for key in keys) > 1


def _launches_by_form(documents: Sequence[tuple[int, SafeDocument]], beside: Callable[[], str] = str) -> Launches:
    mappings = [(line, one, one.value) for line, one in documents if isinstance(one.value, Mapping)]
    objects = [(line, one, value) for line, one, value in mappings if "kind" in value and "apiVersion" in value]
    if objects:
        found = completed([(line, mapping(value), pod_launches(one, value, line)) for line, one, value in objects])
        kinds = ", ".join(dict.fromkeys(str(value["kind"])[:40] for _, _, value in objects))
        plural = "an object" if len(objects) == 1 else "objects"
        return Launches(what=f"{plural} of Kubernetes ({kinds})", found=found)
    for _, one, value in mappings:
        if isinstance(value.get("services"), Mapping):
            return Launches(what="a compose file", found=compose_launches(one, value, variables_of(beside())))
        if isinstance(value.get("applications"), list):
            return Launches(what="a configuration of Ray Serve", found=tuple(ray_launches(mapping(value), "", 0)))
    return Launches(what=_kind(documents[0][1].value))


def _kind(value: object) -> str:
    if isinstance(value, list):
        entries = [one for one in value if isinstance(one, Mapping)]
        if entries and all(
            {"hosts", "tasks", "roles", "name", "import_playbook"} & set(map(str, one)) for one in entries
        ):
            return "a playbook or a list of tasks of Ansible"
        return "a list, and a recipe is a mapping"
    if not isinstance(value, Mapping):
        return "a single value"
    keys = {str(key) for key in value}
    known = next((what for wanted, what in KINDS if wanted <= keys), None)
    shown = ", ".join(sorted(keys)[:SHOWN])
    return known or f"YAML of none of the forms that are read (its keys: {shown})"
