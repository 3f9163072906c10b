"""Which image was made for what a model recipe needs: a note for each in the user's state folder.

``image --recipe`` may leave out a layer or bake mods. Its image then has a tag of its own, which no recipe names.
"""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gb10.core.digest import digest
from gb10.core.whole_file import write_whole
from gb10.errors import UsageError
from gb10.models.needs.image_need import ImageNeed
from gb10.serving.run.notes import notes_folder

SCHEMA: Final = "gb10/made-image/v1"
LARGEST: Final = 64 << 10


class MadeImage(BaseModel):
    """The content of a note."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: Annotated[Literal["gb10/made-image/v1"], Field(alias="schema")]
    image: Annotated[str, Field(pattern=r"^gb10/[a-z0-9._-]{1,60}:[A-Za-z0-9._-]{1,120}$")]
    """Its tag with the plan's key, which never moves."""


def key_of(need: ImageNeed) -> str:
    """Equal for recipes that need the same image."""
    plain = asdict(replace(need, refs=dict(need.refs), said=()))
    return digest(json.loads(json.dumps(plain)))


def note_image(env: Mapping[str, str], key: str, image: str) -> None:
    """Note the image that was made for a need. Raises UsageError."""
    path = _path(env, key)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, f"{json.dumps({'schema': SCHEMA, 'image': image}, indent=1)}\n", "the note")
        path.chmod(0o600)
    except OSError as error:
        raise UsageError(f"cannot write {path}", where=error.strerror or str(error)) from error


def made_image(env: Mapping[str, str], key: str) -> str | None:
    """The image that was made for a need; None when there is no note. Raises UsageError for one that is broken."""
    path = _path(env, key)
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as stream:  # noqa: PTH123 - Path has no flags
            kept = os.fstat(stream.fileno())
            own = stat.S_ISREG(kept.st_mode) and kept.st_uid == os.geteuid()
            if not own or kept.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
                raise UsageError(f"another user may have written {path}", hint=f"remove it: rm {path}")
            text = stream.read(LARGEST)
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
