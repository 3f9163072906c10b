"""The command line with the small image of the integration tests in place of the recipe's; else as `build.py` is.

``GB10_TEST_OVERLAY`` names the folder of the image's overlay: another content is another image.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gb10.errors import interrupted
from gb10.host.ending import end_as_by_ctrl_c


def run() -> int:
    """The exit code. What is loaded here may be interrupted, too."""
    end_as_by_ctrl_c()
    try:
        from gb10.cli import image, main  # noqa: PLC0415
        from tests.integration.test_pipeline import small_plan  # noqa: PLC0415

        setattr(  # noqa: B010 - in place of the recipe's
            image, "make_plan", lambda shop, _: small_plan(shop, overlay=Path(os.environ["GB10_TEST_OVERLAY"]))
        )
        return main(sys.argv[1:])
    except KeyboardInterrupt:
        return interrupted()


if __name__ == "__main__":
    sys.exit(run())
