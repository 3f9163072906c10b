"""Which nodes a service was started on: a note for each in the user's state folder.

Labels of containers name nodes, too, but anybody who may start a container writes labels. So a verb that is told no
nodes looks at this machine, and at the nodes of these notes.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from gb10.core.files import DoubtedFileError, digest, read_state_file, write_whole
from gb10.core.ssh import HERE, ssh_host
from gb10.errors import UsageError
from gb10.serving.run.service import LONGEST, MOST_NODES, NAME
from gb10.serving.run.service_nodes import SOCKETS

SCHEMA: Final = "gb10/service-note/v1"
MOST: Final = 256
"""Notes that are read."""
LARGEST: Final = 64 << 10


def is_node(text: str) -> bool:
    """Whether this can name a node: by ssh, or by the address of its engine."""
    named = text == HERE or text.startswith(SOCKETS) or ssh_host(text) is not None
    return named and text.isprintable() and len(text) <= LONGEST and not {" ", ","} & set(text)


def _node(text: str) -> str:
    if not is_node(text):
        raise ValueError("no node")
    return text


class Content(BaseModel):
    """The content of a note."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: Annotated[Literal["gb10/service-note/v1"], Field(alias="schema")]
    service: Annotated[str, Field(pattern=rf"^{NAME.pattern}$")]
    nodes: Annotated[tuple[Annotated[str, AfterValidator(_node)], ...], Field(min_length=1, max_length=MOST_NODES)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A service that was started on ``nodes``, the head first; ``stamp`` tells whether its file was written anew."""

    service: str
    nodes: tuple[str, ...]
    path: Path
    stamp: tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Notes:
    """The notes that can be read, and a sentence for each that cannot."""

    notes: tuple[Note, ...] = ()
    unread: tuple[str, ...] = ()

    def nodes_of(self, service: str | None) -> tuple[str, ...]:
        """The nodes of a service, or of all."""
        found = (node for one in self.notes if service in (None, one.service) for node in one.nodes)
        return tuple(dict.fromkeys(found))


def notes_folder(env: Mapping[str, str]) -> Path:
    """$XDG_STATE_HOME/gb10/services, else ~/.local/state/gb10/services."""
    given = Path(env.get("XDG_STATE_HOME") or "")
    base = given if given.is_absolute() else Path(env.get("HOME") or "/nonexistent", ".local/state")
    return base / "gb10/services"


def note_nodes(env: Mapping[str, str], service: str, nodes: tuple[str, ...]) -> Path | None:
    """Note where a service is started. This machine alone needs no note. Raises UsageError.

    Runs of the same service on other nodes have another file, and the file is written whole.
    """
    if nodes == (HERE,):
        return None
    folder = notes_folder(env)
    path = folder / f"{service}-{digest(list(nodes))[:12]}.json"
    text = json.dumps({"schema": SCHEMA, "service": service, "nodes": nodes}, indent=1)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, f"{text}\n", "the note")
        path.chmod(0o600)
    except OSError as error:
        raise UsageError(f"cannot write {path}", where=error.strerror or str(error)) from error
    return path


def read_notes(env: Mapping[str, str]) -> Notes:
    """All notes. One that is broken, or that another user may have written, is a sentence."""
    folder = notes_folder(env)
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json" and path.name[0] != ".")
    except FileNotFoundError:
        return Notes()
    except OSError as error:
        return Notes(unread=(f"the notes of services in {folder} cannot be read: {error.strerror or error}",))
    notes, unread = [], [f"{folder} has {len(paths)} notes, of which {MOST} are read"] * (len(paths) > MOST)
    for path in paths[:MOST]:
        found = _read(path)
        if isinstance(found, Note):
            notes.append(found)
        elif found:
            unread.append(f"{path} is not used: {found}")
    return Notes(notes=tuple(notes), unread=tuple(unread))


def _read(path: Path) -> Note | str:
    """A note, or why it is none; empty for one that went meanwhile."""
    try:
        text, kept = read_state_file(path, LARGEST + 1)  # what is longer is half a document, and so no note
    except DoubtedFileError as error:
        return str(error)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    try:
        content = Content.model_validate_json(text)
    except (ValidationError, RecursionError):
        return "it is no note of gb10"
    return Note(service=content.service, nodes=content.nodes, path=path, stamp=_stamp(kept))


def _stamp(kept: os.stat_result) -> tuple[int, int]:
    return kept.st_ino, kept.st_mtime_ns


def forget(note: Note) -> str:
    """Remove a note, unless a run wrote it anew since it was read; why that failed, if it did."""
    try:
        if _stamp(note.path.lstat()) == note.stamp:
            with suppress(FileNotFoundError):
                note.path.unlink()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{note.path} cannot be removed: {error.strerror or error}"
    return ""


MADE_SCHEMA: Final = "gb10/made-image/v1"
LARGEST_MADE: Final = 64 << 10


class MadeImage(BaseModel):
    """The content of a note."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: Annotated[Literal["gb10/made-image/v1"], Field(alias="schema")]
    image: Annotated[str, Field(pattern=r"^gb10/[a-z0-9._-]{1,60}:[A-Za-z0-9._-]{1,120}$")]
    """Its tag with the plan's key, which never moves."""


def note_image(env: Mapping[str, str], key: str, image: str) -> None:
    """Note the image that was made for a need. Raises UsageError."""
    path = _path(env, key)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, f"{json.dumps({'schema': MADE_SCHEMA, 'image': image}, indent=1)}\n", "the note")
        path.chmod(0o600)
    except OSError as error:
        raise UsageError(f"cannot write {path}", where=error.strerror or str(error)) from error


def made_image(env: Mapping[str, str], key: str) -> str | None:
    """The image that was made for a need; None when there is no note. Raises UsageError for one that is broken."""
    path = _path(env, key)
    try:
        text, _ = read_state_file(path, LARGEST_MADE)
    except DoubtedFileError as error:
        raise UsageError(f"another user may have written {path}", hint=f"remove it: rm {path}") from error
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"cannot read {path}", where=error.strerror or str(error)) from error
    try:
        return MadeImage.model_validate_json(text).image
    except ValidationError as error:
        hint = f"remove it: rm {path}; or name the image: --image REF"
        raise UsageError(f"the note of an image is broken: {path}", hint=hint) from error


def _path(env: Mapping[str, str], key: str) -> Path:
    return notes_folder(env).with_name("images") / f"{key[:24]}.json"
