"""Builds the small image of the pipeline's tests in the store of its caller, and prints what it became, as JSON."""

import json
import locale
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gb10.image.build.image_build import ImageBuild
from gb10.image.context import open_context
from gb10.image.plan.catalog import ROOT
from tests.integration.test_pipeline import small_plan


def main() -> None:
    """The overlay's folder is the argument; the rest is what the process was given."""
    spoken = locale.setlocale(locale.LC_ALL, "")
    ctx = open_context(os.environ, verbosity=0)
    built = ImageBuild(ctx, small_plan(ctx, overlay=Path(sys.argv[1]))).image()
    mask = os.umask(0)
    place = {"user": os.getuid(), "umask": mask, "locale": spoken, "zone": time.tzname[0], "checkout": str(ROOT)}
    print(json.dumps({"digest": built.digest, "hit": built.hit, "engine": built.host, **place}))


if __name__ == "__main__":
    main()
