"""Read configs with the engine's own reader, without code of the model: JSON by name on stdin, errors on stdout."""

import json
import logging
import sys
import tempfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
if sys.argv[1] == "vllm":
    from vllm.transformers_utils.config import get_config
else:
    from sglang.srt.utils.hf_transformers import get_config

said = {}
for name, config in json.load(sys.stdin).items():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config), encoding="utf-8")
        try:
            get_config(folder, trust_remote_code=False)
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"[:300]
print(json.dumps(said))
