"""Projects inside of others: recipes/nested.yaml. Pure."""

from collections.abc import Mapping
from typing import Final

from packaging.utils import canonicalize_name

from gb10.core.document import parse_document
from gb10.core.fields import Model, Name, Pinned

NESTED: Final = "recipes/nested.yaml"


class NestedProject(Model):
    """A git repository, and the release, tag or commit of it that is inside."""

    git: str
    version: str


class NestedProjects(Model):
    """``recipes/nested.yaml``: by project and release, what its source archive bundles or its build fetches."""

    releases: dict[Pinned, dict[Name, NestedProject]] = {}

    def of(self, project: str, version: str) -> Mapping[str, NestedProject]:
        """What is inside of a release; nothing of one that is not listed."""
        return self.releases.get(f"{canonicalize_name(project)}=={version}", {})


def read_nested(text: str) -> NestedProjects:
    """The list; raises UsageError for a file that is not valid."""
    return parse_document(text, NestedProjects, where=NESTED, what="list of nested projects")
