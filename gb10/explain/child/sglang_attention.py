"""Which class of attention SGLang would build for a model, and for its layers of state: its constructor does not run."""

import types


def backends(given, config):
    """SGLang's name and class of attention for prompts and for decoding; and the class for layers of state, or None."""
    from sglang.srt.configs.model_config import AttentionArch
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS, attn_backend_wrapper
    from sglang.srt.runtime_context import attention_backends

    prompts, decoding = attention_backends()
    runner = _runner(given, config, AttentionArch, prompts, decoding)
    with _Unconstructed():
        full = [ATTENTION_BACKENDS[name](runner) for name in dict.fromkeys((prompts, decoding))]
        wrapped = attn_backend_wrapper(runner, full[0])
    names = prompts if prompts == decoding else f"{prompts}, decoding {decoding}"
    state = next((one for one in wrapped.given if isinstance(one, Unbuilt) and one is not full[0]), None)
    return {
        "name": names,
        "class": ", ".join(one.kind.__name__ for one in full),
        "state": state.kind.__name__ if state else None,
    }


class Unbuilt:
    """An attention backend whose constructor did not run: its class, and what it was given."""

    def __init__(self, kind, given):
        self.kind, self.given = kind, given


class _Unconstructed:
    """While active, a class of attention gives what it was called with, and no object of itself."""

    def __enter__(self):
        from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

        AttentionBackend.__new__ = lambda kind, *args, **named: Unbuilt(kind, (*args, *named.values()))

    def __exit__(self, *_):
        from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

        del AttentionBackend.__new__


def _runner(given, config, kinds, prompts, decoding):
    """What the choice reads of SGLang's model runner."""
    return types.SimpleNamespace(
        server_args=given,
        model_config=config,
        use_mla_backend=config.attention_arch == kinds.MLA,
        is_draft_worker=False,
        init_new_workspace=False,
        device="cuda",
        dtype=config.dtype,
        prefill_attention_backend_str=prompts,
        decode_attention_backend_str=decoding,
    )
