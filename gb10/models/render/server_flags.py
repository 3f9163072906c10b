"""The flag tables of sparkrun 0.4.2 for the servers that gb10 does not build; see ``engine_flags``. Pure."""

from typing import Final

from gb10.models.render.engine_flags import FlagTable, words_of

LLAMA: Final = FlagTable(
    names=words_of("""
        port host ctx_size n_gpu_layers parallel threads chat_template reasoning_format split_mode
        served_model_name api_key top_p top_k temperature min_p presence_penalty cont_batching no_webui jinja
        """),
    odd={"served_model_name": "--alias", "temperature": "--temp"},
    switches=frozenset({"cont_batching", "jinja", "no_webui"}),
)
TENSORRT: Final = FlagTable(
    names=words_of("""
        port host tensor_parallel pipeline_parallel expert_parallel max_num_tokens max_batch_size max_model_len
        backend tokenizer kv_cache_free_gpu_memory_fraction trust_remote_code
        """),
    odd={
        "tensor_parallel": "--tp_size",
        "pipeline_parallel": "--pp_size",
        "expert_parallel": "--ep_size",
        "max_model_len": "--max_seq_len",
        **{
            name: f"--{name}"
            for name in (
                *("max_num_tokens", "max_batch_size"),
                *("kv_cache_free_gpu_memory_fraction", "trust_remote_code"),
            )
        },
    },
    switches=frozenset({"trust_remote_code"}),
)
MAX: Final = FlagTable(
    names=words_of("host max_model_len max_num_seqs served_model_name quantization"),
    odd={
        "max_model_len": "--max-length",
        "max_num_seqs": "--max-batch-size",
        "quantization": "--quantization-encoding",
    },
    switches=frozenset(),
)
TOKENARY: Final = FlagTable(
    names=words_of("""
        host max_model_len max_num_seqs max_tokens dtype kv_cache_dtype gpu_memory_utilization prefill_chunk_size
        disable_prefix_cache disable_reasoning disable_cuda_graph encode_only ner
        """),
    odd={"kv_cache_dtype": "--kvcache-dtype"},
    switches=frozenset(
        words_of("disable_cuda_graph disable_prefix_cache disable_reasoning encode_only ner"),
    ),
)
ATLAS: Final = FlagTable(
    names=words_of("""
        port host tensor_parallel gpu_memory_utilization max_model_len max_num_seqs max_num_batched_tokens
        served_model_name kv_cache_dtype ep_size max_batch_size block_size kv_high_precision_layers
        tool_call_parser tool_max_tokens max_inter_tool_prose fp8_kv_calibration_tokens fp8_kv_headroom
        scheduling_policy tbt_deadline_ms max_prefill_tokens prefill_varlen_batch oom_guard_mb
        request_timeout swap_space_gb warmup_prompt auto_compact kernel_target lm_head_dtype ssm_cache_slots
        ssm_checkpoint_interval ssm_h_dtype ssm_rollback_mode ssm_batched_recurrent ssm_tail_midchunk
        gdn_fused_norm mtp_quantization mtp_vocab mtp_gate num_drafts draft_model exact_verify dflash_gamma
        dflash_window_size max_thinking_budget default_top_n_sigma default_min_p content_loop_watchdog
        content_loop_min_repeats default_chat_template_kwargs model_from_path cache_dir gpu_ordinal dump
        vision_max_pixels vision_remote_image_max_mb vision_remote_image_timeout_s video_ffmpeg_path
        video_fps video_max_frames video_decode_timeout_s lora_adapter max_lora_rank max_loras
        lora_stageable lora_stageable_disk src_lang tgt_lang high_speed_swap_dir high_speed_swap_gb
        high_speed_swap_resident_blocks high_speed_swap_rank high_speed_swap_qd
        high_speed_swap_cache_blocks_per_seq high_speed_swap_graph disable_tool_grammar
        enable_prefix_caching speculative self_speculative ngram_speculative dflash disable_thinking
        high_speed_swap require_auth adaptive_sampling auto_swap no_auto_swap auth_tokens_file
        disable_template_overrides vision_allow_remote_images vision_remote_image_allow_private
        video_allow_ffmpeg no_fast_load fast_load_prefetch_shards no_tui profile check_kernels
        dangerously_allow_unresolved_kernel_lookups api_key
        """),
    odd={
        "tensor_parallel": "--tp-size",
        "max_model_len": "--max-seq-len",
        "max_num_batched_tokens": "--max-prefill-tokens",
        "served_model_name": "--model-name",
        "api_key": "--auth-token",
    },
    switches=frozenset(
        words_of("""
        adaptive_sampling auto_swap check_kernels dangerously_allow_unresolved_kernel_lookups dflash
        disable_template_overrides disable_thinking enable_prefix_caching fast_load_prefetch_shards
        high_speed_swap ngram_speculative no_auto_swap no_fast_load no_tui profile require_auth
        self_speculative speculative video_allow_ffmpeg vision_allow_remote_images
        vision_remote_image_allow_private
        """)
    ),
)
ATLAS_TRUTHS: Final = frozenset(
    words_of("""
        content_loop_watchdog disable_tool_grammar exact_verify gdn_fused_norm high_speed_swap_graph
        prefill_varlen_batch ssm_batched_recurrent ssm_tail_midchunk
        """)
)
"""Atlas's parameters whose value is written as ``true`` or ``false``."""
