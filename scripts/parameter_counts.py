"""Counts the parameters of whole models by their real modelling code, on the meta device: no weight is made.

An independent proof of gb10/models/memory/shapes. It needs transformers and torch, which gb10's environment lacks:

    python3.11 -m venv /tmp/counts && /tmp/counts/bin/pip install torch==2.13.0 transformers==5.23.0
    /tmp/counts/bin/python scripts/parameter_counts.py FILE... > tests/unit/data/memory/counts.json

FILE: recipes/models/configs/*.json tests/unit/data/memory/configs/*.json. Files without a config are left out.
``--families KIND...`` in their place prints the fields of transformers' own default config of each model type, with its
counts: tests/unit/data/memory/families.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]
import transformers
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

VISION = ("visual", "vision", "multi_modal_projector", "embed_vision", "patch_merge")


def count(config: dict[str, Any]) -> dict[str, int]:
    """Parameters of the decoder and of the encoder for pictures; the matrices of routed experts also apart."""
    fields = {key: value for key, value in config.items() if key not in ("quantization_config", "model_type")}
    kind = {"kimi_k2": "deepseek_v3"}.get(config["model_type"], config["model_type"])
    made = transformers.AutoConfig.for_model(kind.removesuffix("_text") if "text_config" in fields else kind, **fields)
    maker = AutoModelForImageTextToText if "vision_config" in fields else AutoModelForCausalLM
    with torch.device("meta"):
        model = maker.from_config(made)
    return counted(model)


def counted(model: Any) -> dict[str, int]:  # noqa: ANN401 - torch is not in our environment
    """The counts of a model on the meta device."""
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    vision = sum(size for name, size in sizes.items() if any(part in name for part in VISION))
    experts = sum(size for name, size in sizes.items() if ".experts." in name and not name.endswith("_bias"))
    return {"decoder": sum(sizes.values()) - vision, "vision": vision, "experts": experts}


NOT_SIZES = ("id2label", "label2id", "transformers_version", "_name_or_path")


def told_fields(made: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    """The fields of a config that say something."""
    fields = json.loads(json.dumps(made.to_dict(), default=str))

    def kept(part: dict[str, Any]) -> dict[str, Any]:
        told = {
            name: kept(one) if isinstance(one, dict) else one for name, one in part.items() if name not in NOT_SIZES
        }
        return {name: one for name, one in told.items() if one not in (None, False, {}) and not isinstance(one, float)}

    return {**kept(fields), "tie_word_embeddings": bool(made.tie_word_embeddings)}


def families(kinds: list[str]) -> dict[str, Any]:
    """Config and counts of the default model of each type."""
    found = {}
    for kind in kinds:
        made = transformers.AutoConfig.for_model(kind)
        sees = made.get_text_config() is not made
        with torch.device("meta"):
            model = (AutoModelForImageTextToText if sees else AutoModelForCausalLM).from_config(made)
        config = {"model_type": kind, **told_fields(made), "architectures": [type(model).__name__]}
        found[kind] = {"config": config, **counted(model)}
    return found


def main(names: list[str]) -> int:
    """Print the counts of the files as JSON; what transformers cannot make is listed on stderr."""
    if names[:1] == ["--families"]:
        found = {"transformers": transformers.__version__, "families": families(names[1:])}
        print(json.dumps(found, sort_keys=True, separators=(",", ":")).replace('},"', '},\n"'))
        return 0
    counts = {}
    for name in names:
        content = json.loads(Path(name).read_text(encoding="utf-8"))
        if "config" not in content:
            continue
        try:
            counts[content["model"]] = count(content["config"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            print(f"{content['model']}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
    print(json.dumps({"transformers": transformers.__version__, "counts": counts}, indent=1, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
