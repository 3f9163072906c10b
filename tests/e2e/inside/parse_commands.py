"""Parse serve commands with the engine's own parser: JSON lists of words on stdin, what it says of each on stdout.

With ``--options``: the names of its options.
"""

import argparse
import contextlib
import io
import json
import logging
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)


def parser_of(engine: str) -> argparse.ArgumentParser:
    if engine == "vllm":
        from vllm.entrypoints.common.cli_args import make_arg_parser
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        return make_arg_parser(FlexibleArgumentParser())
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return parser


def check(engine: str, parser: argparse.ArgumentParser, words: list[str]) -> str:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            found = parser.parse_args(words)
            if engine == "vllm":
                from vllm.entrypoints.common.cli_args import validate_parsed_serve_args

                validate_parsed_serve_args(found)
    except SystemExit:
        return said.getvalue()[-300:] or "it exits"
    except (ValueError, TypeError) as error:
        return str(error)[:300]
    return ""


own = parser_of(sys.argv[1])
if "--options" in sys.argv:
    print(json.dumps(sorted({name for one in own._actions for name in one.option_strings} - {"-h", "--help"})))
else:
    print(json.dumps([check(sys.argv[1], own, words) for words in json.load(sys.stdin)]))
