"""The listing of a wheel cache: which file stands for a key, by sha256; signed byte for byte. Pure."""

import json
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, ValidationError

from gb10.core.fields import Model
from gb10.errors import VerifyError

LISTING: Final = "wheels.json"
SIGNATURE: Final = f"{LISTING}.sig"

Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Listed(Model):
    """A wheel: its file name, which holds no folder, sha256, and size in bytes."""

    file: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.+-]+\.whl$")]
    sha256: Hex
    size: Annotated[int, Field(ge=0)]

    def path(self, key: str) -> str:
        """Where the repository has it."""
        return f"wheels/{key}/{self.file}"


class _Listing(Model):
    version: Literal[1] = 1
    wheels: dict[Hex, Listed]


def read_listing(text: str) -> Mapping[str, Listed]:
    """What a listing names, by key; raises VerifyError for one that is none."""
    try:
        return _Listing.model_validate_json(text).wheels
    except ValidationError as error:
        first = error.errors()[0]
        raise VerifyError(
            "the listing is not one that this version reads",
            where=f"{'.'.join(map(str, first['loc']))}: {first['msg']}",
            hint="a newer version of the tool pushed it: update this one",
        ) from error


def write_listing(wheels: Mapping[str, Listed]) -> str:
    """The listing's text, the same for the same wheels. ASCII only."""
    return json.dumps(_Listing(wheels=dict(wheels)).model_dump(), indent=1, sort_keys=True) + "\n"
