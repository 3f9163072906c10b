"""The command line with the small image of the integration tests in place of the recipe's; else as `build.py` is.

``GB10_TEST_OVERLAY`` names the folder of the image's overlay: another content is another image.
"""

import sys


def run() -> int:
    """The exit code. Ctrl-C may come while something is loaded."""
    try:
        import os  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
        from gb10.core.signals import end_as_by_ctrl_c  # noqa: PLC0415

        end_as_by_ctrl_c()
        from gb10.cli import main  # noqa: PLC0415
        from gb10.cli.build import image  # noqa: PLC0415
        from tests.integration.test_pipeline import small_plan  # noqa: PLC0415

        setattr(  # noqa: B010 - in place of the recipe's
            image, "planned", lambda ctx, _, *, shown: small_plan(ctx, overlay=Path(os.environ["GB10_TEST_OVERLAY"]))
        )
        return main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command again to continue\n")
        return 130


if __name__ == "__main__":
    sys.exit(run())
