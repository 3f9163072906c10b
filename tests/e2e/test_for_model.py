"""An image with the kernels of one model: FlashInfer finds what it asks for, its JIT compiler forbidden."""

import json
from pathlib import Path

import pytest

from gb10.containers.connection import Engine
from tests.e2e.image import build, run_python

pytestmark = pytest.mark.e2e
SCRIPT = Path(__file__).parent / "inside/no_jit.py"
CONFIG = {
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "head_dim": 128,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    model = tmp_path_factory.mktemp("model")
    (model / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return build("--engine", "sglang", "--for-model", str(model))


def test_nothing_that_the_model_asks_of_flashinfer_is_compiled_on_the_device(
    engine: Engine, image: dict[str, object], emulator: Path
) -> None:
    tags = image["tags"]
    assert isinstance(tags, list)
    text = run_python(engine, tags[-1], emulator, "/no_jit.py", files={SCRIPT: "/no_jit.py"})
    found = json.loads(text.splitlines()[-1])
    assert found["found"] == 10
    assert "head_dim_qk_192" in found["refused"]
