"""The command line with the small image of the integration tests in place of the recipe's; else as `build.py` is.

``GB10_TEST_OVERLAY`` names the folder of the image's overlay: another content is another image.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gb10.cli import image, main
from gb10.host.ending import end_as_by_ctrl_c
from gb10.plan.values import Plan
from gb10.request.planning import Request
from gb10.workshop import Workshop
from tests.integration.test_pipeline import small_plan


def _planned(shop: Workshop, _: Request) -> Plan:
    return small_plan(shop, overlay=Path(os.environ["GB10_TEST_OVERLAY"]))


if __name__ == "__main__":
    end_as_by_ctrl_c()
    setattr(image, "make_plan", _planned)  # noqa: B010 - in place of the recipe's
    sys.exit(main(sys.argv[1:]))
