"""The tiny models for the goldens of tools/make_family_goldens.py: a config.json each, and the form of weights.

Both dialects of config.json (`rope_theta`, `rope_scaling`, `torch_dtype`; `rope_parameters`, `dtype`), the hub's older
key layouts, and optional keys are spread over the variants. Sizes differ wherever a family allows it (hidden 64, 8
heads of 16, inner 96), so that confused dimensions are detected; windows are 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

WINDOW = 8


@dataclass(frozen=True)
class Variant:
    family: str  # its name in docs/support.md
    config: dict[str, Any]
    stored: str = "hub"  # names and layout of the weights: a key of STORED in make_family_goldens.py
    long_run: bool = False  # adds a prompt of 71 tokens and 180 steps
    # Config keys that must make a difference, with the value to compare with (None removes the key).
    matters: dict[str, Any] = field(default_factory=dict)
    spreads: dict[str, float] = field(default_factory=dict)  # exceptions from SPREADS
    settles: bool = False  # random models of this kind soon repeat themselves, with any spreads


DENSE = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "vocab_size": 256,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16, "max_position_embeddings": 128,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
OLD = {"torch_dtype": "float32", "transformers_version": "4.40.0"}
NEW = {"dtype": "float32", "transformers_version": "5.23.0"}


def default_rope(theta: float = 10000.0, **more: Any) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta, **more}


def named(model_type: str, architecture: str) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type}


GPT2 = {**named("gpt2", "GPT2LMHeadModel"), "activation_function": "gelu_new", "n_positions": 128,
        "bos_token_id": 2, "eos_token_id": 2, "layer_norm_epsilon": 1e-05}  # fmt: skip
OPT = {**named("opt", "OPTForCausalLM"), "hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 4,
       "num_attention_heads": 8, "max_position_embeddings": 128, "activation_function": "relu", "layerdrop": 0.0,
       "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}  # fmt: skip
NEOX = {**named("gpt_neox", "GPTNeoXForCausalLM"), "intermediate_size": 96, "num_hidden_layers": 4, "vocab_size": 256,
        "max_position_embeddings": 128, "hidden_act": "gelu", "layer_norm_eps": 1e-05, "bos_token_id": 0,
        "eos_token_id": 0, "tie_word_embeddings": False}  # fmt: skip
BLOOM = {**named("bloom", "BloomForCausalLM"), "layer_norm_epsilon": 1e-05, "bos_token_id": 1, "eos_token_id": 2,
         "pad_token_id": 3, "slow_but_exact": False, "pretraining_tp": 1}  # fmt: skip
LLAMA = {**named("llama", "LlamaForCausalLM"), **DENSE, "hidden_act": "silu"}
MISTRAL = {**named("mistral", "MistralForCausalLM"), **DENSE, "hidden_act": "silu", "rms_norm_eps": 1e-05,
           "tie_word_embeddings": False}  # fmt: skip
MIXTRAL = {**named("mixtral", "MixtralForCausalLM"), **DENSE, "hidden_act": "silu", "num_local_experts": 4,
           "num_experts_per_tok": 2, "rms_norm_eps": 1e-05, "tie_word_embeddings": False}  # fmt: skip
DENSE_HEADS = {key: value for key, value in DENSE.items() if key != "head_dim"}  # of hidden size / heads
QWEN2 = {**named("qwen2", "Qwen2ForCausalLM"), **DENSE_HEADS, "hidden_act": "silu", "rms_norm_eps": 1e-06}
QWEN3 = {**named("qwen3", "Qwen3ForCausalLM"), **DENSE, "hidden_act": "silu", "rms_norm_eps": 1e-06}
QWEN3_MOE = {**named("qwen3_moe", "Qwen3MoeForCausalLM"), **DENSE, "hidden_act": "silu", "rms_norm_eps": 1e-06,
             "intermediate_size": 200, "moe_intermediate_size": 48, "num_experts": 5, "num_experts_per_tok": 2,
             "num_hidden_layers": 3, "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True,
             "output_router_logits": False, "router_aux_loss_coef": 0.001}  # fmt: skip
QWEN2_MOE = {**QWEN3_MOE, **named("qwen2_moe", "Qwen2MoeForCausalLM"), "norm_topk_prob": False,
             "tie_word_embeddings": False}  # fmt: skip
del QWEN2_MOE["head_dim"]
MINISTRAL3_ROPE = {"rope_type": "yarn", "type": "yarn", "rope_theta": 1000000.0, "factor": 8.0, "beta_fast": 32.0,
                   "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5,
                   "original_max_position_embeddings": 16}  # fmt: skip
GEMMA = {**DENSE, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-06, "query_pre_attn_scalar": 24,
         "sliding_window": WINDOW, "attention_bias": False, "eos_token_id": 1, "bos_token_id": 2,
         "pad_token_id": 0}  # fmt: skip
GEMMA2 = {**named("gemma2", "Gemma2ForCausalLM"), **GEMMA, "attn_logit_softcapping": 3.0,
          "final_logit_softcapping": 1.5}  # fmt: skip
GEMMA3 = {**named("gemma3_text", "Gemma3ForCausalLM"), **GEMMA, "attn_logit_softcapping": None,
          "final_logit_softcapping": None}  # fmt: skip
GEMMA4 = {**named("gemma4_text", "Gemma4ForCausalLM"), **DENSE, "hidden_activation": "gelu_pytorch_tanh",
          "rms_norm_eps": 1e-06, "sliding_window": WINDOW, "attention_bias": False, "eos_token_id": 1, "bos_token_id": 2,
          "pad_token_id": 0, "enable_moe_block": False, "num_experts": None, "top_k_experts": None,
          "tie_word_embeddings": True, "num_hidden_layers": 6, "num_attention_heads": 6,
          "num_key_value_heads": 3}  # fmt: skip
GEMMA3N = {**named("gemma3n_text", "Gemma3nForCausalLM"), **DENSE, "hidden_activation": "gelu_pytorch_tanh",
           "rms_norm_eps": 1e-06, "sliding_window": WINDOW, "attention_bias": False, "eos_token_id": 1,
           "bos_token_id": 2, "pad_token_id": 0, "num_hidden_layers": 5, "altup_coef_clip": 120.0}  # fmt: skip
PHI3 = {**named("phi3", "Phi3ForCausalLM"), **DENSE_HEADS, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "hidden_size": 128, "tie_word_embeddings": False, "pad_token_id": 0,
        "original_max_position_embeddings": 128}  # fmt: skip
GPT_OSS = {**named("gpt_oss", "GptOssForCausalLM"), **DENSE, "hidden_act": "silu", "rms_norm_eps": 1e-05,
           "num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": True, "swiglu_limit": 1.5,
           "sliding_window": WINDOW, "tie_word_embeddings": False, "max_position_embeddings": 512}  # fmt: skip
QWEN3_5 = {**named("qwen3_5_text", "Qwen3_5ForCausalLM"), **DENSE, "hidden_act": "silu", "rms_norm_eps": 1e-06,
           "attention_bias": False, "attention_dropout": 0.0, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8,
           "linear_value_head_dim": 12, "linear_num_key_heads": 3, "linear_num_value_heads": 6,
           "max_position_embeddings": 512, "tie_word_embeddings": False}  # fmt: skip
QWEN3_NEXT = {**{key: value for key, value in QWEN3_5.items() if key != "intermediate_size"},
              **named("qwen3_next", "Qwen3NextForCausalLM"), "intermediate_size": 56, "moe_intermediate_size": 48,
              "shared_expert_intermediate_size": 40, "num_experts": 5, "num_experts_per_tok": 2,
              "norm_topk_prob": True, "output_router_logits": False, "router_aux_loss_coef": 0.001}  # fmt: skip
QWEN3_5_MOE = {**{key: value for key, value in QWEN3_NEXT.items() if key not in ("intermediate_size", "norm_topk_prob")},
               **named("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM")}  # fmt: skip
SMOLLM3 = {**named("smollm3", "SmolLM3ForCausalLM"), **DENSE_HEADS, "hidden_act": "silu", "rms_norm_eps": 1e-06,
           "num_hidden_layers": 3, "pad_token_id": 3}  # fmt: skip
GRANITE = {**named("granite", "GraniteForCausalLM"), **DENSE_HEADS, "hidden_act": "silu", "rms_norm_eps": 1e-05,
           "num_hidden_layers": 3}  # fmt: skip
LATENT = {**DENSE_HEADS, "hidden_act": "silu", "rms_norm_eps": 1e-05, "num_hidden_layers": 3, "kv_lora_rank": 24,
          "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 20, "intermediate_size": 104,
          "moe_intermediate_size": 48, "first_k_dense_replace": 1, "tie_word_embeddings": False}  # fmt: skip
STARCODER2 = {**named("starcoder2", "Starcoder2ForCausalLM"), **DENSE_HEADS, "hidden_act": "gelu_pytorch_tanh",
              "norm_epsilon": 1e-05, "num_hidden_layers": 3, "embedding_dropout": 0.0,
              "residual_dropout": 0.0}  # fmt: skip
STABLELM = {**named("stablelm", "StableLmForCausalLM"), **DENSE_HEADS, "hidden_act": "silu", "layer_norm_eps": 1e-05,
            "num_hidden_layers": 3}  # fmt: skip
FALCON = {**named("falcon", "FalconForCausalLM"), "num_hidden_layers": 3, "layer_norm_epsilon": 1e-05,
          "alibi": False, "parallel_attn": True, "hidden_dropout": 0.0, "max_position_embeddings": 128,
          "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 64}  # fmt: skip

VARIANTS: dict[str, Variant] = {
    "gpt2_bare_names": Variant("GPT-2", {
        **GPT2, **OLD, "n_embd": 64, "n_layer": 4, "n_head": 8, "n_ctx": 128, "n_inner": None, "vocab_size": 257,
    }, stored="bare", matters={"activation_function": "gelu"}),
    "gpt2_scaled_by_layer": Variant("GPT-2", {
        **GPT2, **NEW, "n_embd": 72, "n_layer": 4, "n_head": 9, "n_inner": 100, "vocab_size": 256,
        "scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True,
    }, matters={"scale_attn_by_inverse_layer_idx": False}),
    "opt_norm_before": Variant("OPT", {
        **OPT, **OLD, "vocab_size": 259, "word_embed_proj_dim": 64, "do_layer_norm_before": True, "enable_bias": True,
    }, matters={"activation_function": "gelu"}),
    "opt_norm_after_projected": Variant("OPT", {
        **OPT, **OLD, "vocab_size": 256, "word_embed_proj_dim": 32, "do_layer_norm_before": False,
    }, stored="bare", spreads={"matrix": 0.2, "attention": 0.6, "embedding": 1.0, "positions": 0.5, "bias": 0.1}),
    "opt_no_biases": Variant("OPT", {
        **OPT, **NEW, "vocab_size": 256, "word_embed_proj_dim": 64, "enable_bias": False, "ffn_dim": 100,
    }),
    "gptj_default": Variant("GPT-J", {
        **named("gptj", "GPTJForCausalLM"), **OLD, "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 128,
        "n_inner": None, "rotary_dim": 12, "rotary": True, "vocab_size": 257, "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-05, "bos_token_id": 2, "eos_token_id": 2, "tie_word_embeddings": False,
    }, stored="old_buffers", matters={"rotary_dim": 16}),
    "neox_parallel": Variant("GPT-NeoX", {
        **NEOX, **OLD, "hidden_size": 64, "num_attention_heads": 4, "rotary_pct": 0.25, "rotary_emb_base": 1000,
        "use_parallel_residual": True,
    }, stored="old_buffers", matters={"hidden_act": "gelu_new", "rotary_pct": 1.0,
                                      "use_parallel_residual": False, "rotary_emb_base": 10000}),
    "neox_sequential": Variant("GPT-NeoX", {
        **NEOX, **NEW, "hidden_size": 72, "num_attention_heads": 9, "vocab_size": 259, "attention_bias": True,
        "rope_parameters": default_rope(partial_rotary_factor=0.5), "use_parallel_residual": False,
    }, matters={"use_parallel_residual": True}),
    "bloom_eight_heads": Variant("BLOOM", {
        **BLOOM, **OLD, "n_embed": 64, "n_layer": 4, "num_attention_heads": 8, "vocab_size": 256,
        "apply_residual_connection_post_layernorm": False,
    }, stored="bare", spreads={"matrix": 0.6, "attention": 0.5}, settles=True),
    "bloom_twelve_heads_residual_after_norm": Variant("BLOOM", {
        **BLOOM, **NEW, "hidden_size": 96, "n_layer": 4, "n_head": 12, "vocab_size": 259,
        "apply_residual_connection_post_layernorm": True,
    }, matters={"apply_residual_connection_post_layernorm": False}, spreads={"matrix": 0.6, "attention": 0.5},
        settles=True),
    "llama_grouped": Variant("Llama", {
        **LLAMA, **NEW, "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "rope_parameters": default_rope(),
    }),
    "llama_nine_heads_llama3_tied": Variant("Llama", {
        **LLAMA, **OLD, "hidden_size": 72, "intermediate_size": 100, "vocab_size": 259, "num_attention_heads": 9,
        "num_key_value_heads": 3, "max_position_embeddings": 256, "rms_norm_eps": 1e-06, "tie_word_embeddings": True,
        "rope_theta": 500000.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 64},
    }, matters={"rope_scaling": None}),
    "llama_one_kv_head_biases_linear": Variant("Llama", {
        **LLAMA, **OLD, "num_key_value_heads": 1, "head_dim": None, "rms_norm_eps": 1e-05, "eos_token_id": None,
        "tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True, "rope_theta": 10000.0,
        "rope_scaling": {"type": "linear", "factor": 4.0},
    }, matters={"rope_scaling": None}),
    "llama_four_heads_yarn": Variant("Llama", {
        **LLAMA, **NEW, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": None, "rms_norm_eps": 1e-05,
        "tie_word_embeddings": False, "eos_token_id": [2, 7],
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                            "original_max_position_embeddings": 32},
    }, matters={"rope_parameters": default_rope()}),
    "mistral_window": Variant("Mistral", {
        **MISTRAL, **OLD, "rope_theta": 10000.0, "sliding_window": WINDOW,
    }, matters={"sliding_window": WINDOW + 1}),
    "mistral_no_window": Variant("Mistral", {
        **MISTRAL, **NEW, "vocab_size": 259, "num_key_value_heads": 2, "sliding_window": None,
        "rope_parameters": default_rope(1000000.0),
    }),
    "ministral_mixed_windows": Variant("Ministral", {
        **named("ministral", "MinistralForCausalLM"), **DENSE, **NEW, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "tie_word_embeddings": False, "sliding_window": WINDOW, "max_position_embeddings": 512,
        "rope_parameters": default_rope(100000000.0),
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"],
    }, long_run=True, matters={"sliding_window": WINDOW + 1}),
    "mixtral_hub": Variant("Mixtral", {
        **MIXTRAL, **OLD, "rope_theta": 1000000.0, "sliding_window": None,
    }, matters={"num_experts_per_tok": 3}),
    "mixtral_packed_window": Variant("Mixtral", {
        **MIXTRAL, **NEW, "vocab_size": 259, "num_local_experts": 5, "intermediate_size": 72,
        "rope_parameters": default_rope(1000000.0), "sliding_window": WINDOW,
    }, stored="packed", matters={"sliding_window": WINDOW + 1}),
    "qwen2_upper_windows_tied": Variant("Qwen2", {
        **QWEN2, **OLD, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2,
        "rope_theta": 1000000.0, "tie_word_embeddings": True,
    }, matters={"max_window_layers": 3, "sliding_window": WINDOW + 1}),
    "qwen2_no_window": Variant("Qwen2", {
        **QWEN2, **NEW, "vocab_size": 259, "num_key_value_heads": 2, "use_sliding_window": False,
        "sliding_window": WINDOW, "max_window_layers": 2, "tie_word_embeddings": False,
        "rope_parameters": default_rope(1000000.0),
    }, matters={"use_sliding_window": True}),
    "qwen3_no_window_tied": Variant("Qwen3", {
        **QWEN3, **OLD, "use_sliding_window": False, "sliding_window": None, "max_window_layers": 4,
        "rope_theta": 1000000.0, "tie_word_embeddings": True, "attention_bias": False,
    }),
    "qwen3_mixed_windows_biases": Variant("Qwen3", {
        **QWEN3, **NEW, "num_attention_heads": 6, "num_key_value_heads": 3, "use_sliding_window": True,
        "sliding_window": WINDOW, "max_window_layers": 1, "tie_word_embeddings": False, "attention_bias": True,
        "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"],
        "rope_parameters": default_rope(1000000.0),
    }, matters={"sliding_window": WINDOW + 1}),
    "qwen3_moe_three_kv_heads": Variant("Qwen3-MoE", {
        **QWEN3_MOE, **OLD, "num_attention_heads": 9, "num_key_value_heads": 3, "rope_theta": 1000000.0,
        "rope_scaling": None, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 3,
        "attention_bias": True, "tie_word_embeddings": False,
    }, matters={"norm_topk_prob": False, "num_experts_per_tok": 3, "rope_theta": 10000.0, "rms_norm_eps": 0.01,
                "sliding_window": WINDOW + 1, "use_sliding_window": False, "hidden_act": "gelu"}),
    "qwen3_5_rows_and_blocks": Variant("Qwen3.5", {
        **QWEN3_5, **NEW, "attn_output_gate": True, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False, "full_attention_interval": 4,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
        "rope_parameters": default_rope(10000000.0, partial_rotary_factor=0.25, mrope_section=[1, 1, 0],
                                        mrope_interleaved=True),
    }, long_run=True),
    "qwen3_next_interleaved": Variant("Qwen3-Next", {
        **QWEN3_NEXT, **OLD, "rope_theta": 10000000, "partial_rotary_factor": 0.5, "decoder_sparse_step": 2,
        "mlp_only_layers": [1], "full_attention_interval": 2,
    }, matters={"norm_topk_prob": False, "partial_rotary_factor": 0.25}),
    "qwen3_5_moe": Variant("Qwen3.5-MoE", {
        **QWEN3_5_MOE, **NEW, "layer_types": ["linear_attention", "full_attention", "linear_attention",
                                              "full_attention"],
        "rope_parameters": default_rope(10000.0, partial_rotary_factor=0.25),
    }),
    "gemma2_alternating_windows": Variant("Gemma 2", {
        **GEMMA2, **OLD, "rope_theta": 10000.0,
    }, matters={"attn_logit_softcapping": None, "final_logit_softcapping": None, "sliding_window": WINDOW + 1,
                "query_pre_attn_scalar": 16}),
    "gemma2_named_layers": Variant("Gemma 2", {
        **GEMMA2, **NEW, "vocab_size": 259, "num_attention_heads": 4, "num_key_value_heads": 2,
        "tie_word_embeddings": True, "rope_parameters": default_rope(),
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
    }, matters={"sliding_window": WINDOW + 1}),
    "gemma3_every_sixth_full": Variant("Gemma 3 text", {
        **GEMMA3, **OLD, "num_hidden_layers": 12, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window_pattern": 6,
    }, matters={"rope_theta": 10000.0, "rope_local_base_freq": 1000000.0, "rope_scaling": None,
                "sliding_window": WINDOW + 1}),
    "gemma3_nested_ropes": Variant("Gemma 3 text", {
        **GEMMA3, **NEW, "num_hidden_layers": 4, "num_key_value_heads": 1, "vocab_size": 259,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        "rope_parameters": {"full_attention": default_rope(1000000.0), "sliding_attention": default_rope(5000.0)},
    }, matters={"sliding_window": WINDOW + 1}),
    "gemma3n_three_streams": Variant("Gemma 3n", {
        **GEMMA3N, **NEW, "vocab_size": 259, "intermediate_size": [96] * 5, "hidden_size_per_layer_input": 12,
        "vocab_size_per_layer_input": 200, "altup_num_inputs": 3, "altup_active_idx": 1, "altup_correct_scale": True,
        "num_kv_shared_layers": 2, "laurel_rank": 10, "activation_sparsity_pattern": [0.9, 0.0, 0.5, 0.0, 0.25],
        "final_logit_softcapping": 1.5,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
                        "full_attention"],
        "rope_parameters": {"full_attention": default_rope(1000000.0), "sliding_attention": default_rope(5000.0)},
    }, matters={"sliding_window": WINDOW + 1, "final_logit_softcapping": 4.0, "rms_norm_eps": 0.01,
                "altup_active_idx": 0, "altup_correct_scale": False,
                "activation_sparsity_pattern": [0.9, 0.0, 0.5, 0.0, 0.3], "hidden_activation": "silu"}),
    "gemma4_layer_inputs_shared_caches": Variant("Gemma 4", {
        **GEMMA4, **NEW, "global_head_dim": 24, "num_global_key_value_heads": None, "attention_k_eq_v": False,
        "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 256, "num_kv_shared_layers": 3,
        "use_double_wide_mlp": True, "final_logit_softcapping": 1.5, "use_bidirectional_attention": None,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"] * 2,
        "rope_parameters": {
            "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
            "sliding_attention": default_rope(),
        },
    }, matters={"sliding_window": WINDOW + 1, "final_logit_softcapping": None, "rms_norm_eps": 0.01,
                "hidden_activation": "silu",
                "rope_parameters": {"full_attention": default_rope(1000000.0), "sliding_attention": default_rope()}}),
    "gemma4_keys_are_values": Variant("Gemma 4", {
        **GEMMA4, **NEW, "attention_k_eq_v": True, "hidden_size_per_layer_input": 0, "vocab_size": 259,
        "num_kv_shared_layers": 0, "use_double_wide_mlp": False, "final_logit_softcapping": None,
        "use_bidirectional_attention": "vision", "max_position_embeddings": 512, "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "full_attention"],
        "per_layer_config": {"2": {"head_dim": 20, "num_key_value_heads": 2},
                             "3": {"head_dim": 20, "num_key_value_heads": 2}},
    }, matters={"sliding_window": WINDOW + 1, "rms_norm_eps": 0.01}),
    "gemma4_mlp_beside_experts": Variant("Gemma 4", {
        **GEMMA4, **NEW, "enable_moe_block": True, "num_experts": 5, "top_k_experts": 2, "moe_intermediate_size": 40,
        "attention_k_eq_v": True, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0,
        "use_double_wide_mlp": False, "final_logit_softcapping": 1.5, "use_bidirectional_attention": "vision",
        "num_hidden_layers": 4, "per_layer_config": {"3": {"head_dim": 24, "num_key_value_heads": 1}},
        "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
    }, matters={"top_k_experts": 3, "sliding_window": WINDOW + 1, "rms_norm_eps": 0.01,
                "hidden_activation": "silu"}),
    "phi3_no_window": Variant("Phi-3", {
        **PHI3, **OLD, "rope_theta": 10000.0, "rope_scaling": None, "sliding_window": None,
    }),
    "phi3_window_partial_rotary": Variant("Phi-3", {
        **PHI3, **NEW, "vocab_size": 259, "sliding_window": WINDOW,
        "rope_parameters": default_rope(partial_rotary_factor=0.75),
    }, matters={"sliding_window": WINDOW + 1}),
    "phi3_longrope": Variant("Phi-3", {
        **PHI3, **OLD, "rope_theta": 10000.0, "sliding_window": None, "original_max_position_embeddings": 32,
        "rope_scaling": {"type": "longrope",
                         "short_factor": [1.0, 1.05, 1.1, 1.25, 1.4, 1.6, 1.8, 2.0],
                         "long_factor": [1.1, 1.5, 2.2, 3.1, 4.5, 6.0, 8.5, 12.0]},
    }, matters={"rope_scaling": None}),
    "gpt_oss_plain": Variant("gpt-oss", {
        **GPT_OSS, **NEW, "rope_parameters": {**YARN, "rope_theta": 150000.0},
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    }, long_run=True, matters={"swiglu_limit": 7.0, "sliding_window": WINDOW + 1}),
    "gpt_oss_mxfp4": Variant("gpt-oss", {
        **GPT_OSS, **OLD, "vocab_size": 259, "num_local_experts": 5, "experts_per_token": 2, "rope_theta": 150000,
        "rope_scaling": YARN,
        "quantization_config": {"quant_method": "mxfp4",
                                "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                           "model.embed_tokens", "lm_head"]},
    }, stored="mxfp4", matters={"swiglu_limit": 7.0}),
    "smollm3_windows_tied": Variant("SmolLM3", {
        **SMOLLM3, **OLD, "hidden_size": 72, "num_attention_heads": 9, "num_key_value_heads": 3, "rope_theta": 50000.0,
        "rope_scaling": None, "no_rope_layers": [1, 0, 1], "no_rope_layer_interval": 4, "max_window_layers": 28,
        "use_sliding_window": True, "sliding_window": WINDOW, "attention_bias": True, "mlp_bias": True,
        "pretraining_tp": 2,
    }, matters={"no_rope_layers": [1, 1, 0], "rope_theta": 2000000.0, "sliding_window": WINDOW + 1,
                "use_sliding_window": False, "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "granite_three_kv_heads": Variant("Granite", {
        **GRANITE, **OLD, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 72, "rope_theta": 50000.0,
        "rope_scaling": None, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False,
        "embedding_multiplier": 3.0, "attention_multiplier": 0.2, "residual_multiplier": 0.6, "logits_scaling": 4.0,
    }, matters={"embedding_multiplier": 2.0, "attention_multiplier": 0.15, "residual_multiplier": 0.7,
                "logits_scaling": 5.0, "rope_theta": 10000.0, "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "granitemoe_three_kv_heads": Variant("GraniteMoE", {
        **GRANITE, **OLD, **named("granitemoe", "GraniteMoeForCausalLM"), "num_attention_heads": 9,
        "num_key_value_heads": 3, "hidden_size": 72, "rope_theta": 50000.0, "rope_scaling": None,
        "attention_bias": False, "tie_word_embeddings": True, "num_local_experts": 5, "num_experts_per_tok": 2,
        "intermediate_size": 48, "output_router_logits": False, "router_aux_loss_coef": 0.01,
        "embedding_multiplier": 3.0, "attention_multiplier": 0.2, "residual_multiplier": 0.6, "logits_scaling": 4.0,
    }, matters={"embedding_multiplier": 2.0, "attention_multiplier": 0.15, "residual_multiplier": 0.7,
                "logits_scaling": 5.0, "num_experts_per_tok": 3, "rope_theta": 10000.0}),
    "starcoder2_window_tied": Variant("StarCoder2", {
        **STARCODER2, **OLD, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 72,
        "rope_theta": 50000.0, "use_bias": True, "sliding_window": WINDOW,
    }, matters={"rope_theta": 10000.0, "norm_epsilon": 0.01, "sliding_window": WINDOW + 1, "hidden_act": "relu"}),
    "stablelm_sequential": Variant("StableLM", {
        **STABLELM, **OLD, "num_attention_heads": 6, "num_key_value_heads": 3, "hidden_size": 96,
        "rope_theta": 50000.0, "use_qkv_bias": True, "use_parallel_residual": False, "qk_layernorm": False,
        "tie_word_embeddings": False, "partial_rotary_factor": 0.25,
    }, matters={"partial_rotary_factor": 0.5, "rope_theta": 100.0, "layer_norm_eps": 0.01, "hidden_act": "gelu"}),
    "stablelm_parallel": Variant("StableLM", {
        **STABLELM, **NEW, "num_attention_heads": 4, "num_key_value_heads": 4, "use_qkv_bias": False,
        "rope_parameters": default_rope(partial_rotary_factor=0.5), "use_parallel_residual": True,
        "num_hidden_layers": 2, "tie_word_embeddings": False,
    }),
    "seed_oss_five_heads": Variant("Seed-OSS", {
        **named("seed_oss", "SeedOssForCausalLM"), **DENSE, **OLD, "hidden_act": "silu", "rms_norm_eps": 1e-06,
        "num_hidden_layers": 3, "num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 20,
        "rope_theta": 50000.0, "rope_scaling": {"rope_type": "default"}, "attention_bias": True,
        "attention_out_bias": False, "mlp_bias": False, "residual_dropout": 0.1, "pretraining_tp": 1,
        "tie_word_embeddings": False,
    }, matters={"rope_theta": 100.0, "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "ernie4_5_biases_tied": Variant("ERNIE 4.5", {
        **named("ernie4_5", "Ernie4_5ForCausalLM"), **DENSE, **OLD, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3, "pad_token_id": 0,
        "rope_theta": 50000.0, "rope_scaling": None, "use_bias": True, "tie_word_embeddings": True,
    }, matters={"rope_theta": 100.0, "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "glm4_three_kv_heads": Variant("GLM-4", {
        **named("glm4", "Glm4ForCausalLM"), **DENSE, **OLD, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 16,
        "rope_theta": 50000.0, "partial_rotary_factor": 0.5, "attention_bias": True, "tie_word_embeddings": False,
        "pad_token_id": 0, "eos_token_id": [2, 5],
    }, matters={"rope_theta": 100.0, "partial_rotary_factor": 1.0, "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "exaone4_mixed_windows": Variant("EXAONE 4", {
        **named("exaone4", "Exaone4ForCausalLM"), **DENSE, **OLD, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 16,
        "rope_theta": 50000.0, "sliding_window": WINDOW, "sliding_window_pattern": "LG",
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "tie_word_embeddings": False,
    }, matters={"rope_theta": 100.0, "rms_norm_eps": 0.01, "hidden_act": "gelu", "sliding_window": WINDOW + 1}),
    "hunyuan_alpha": Variant("Hunyuan", {
        **named("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM"), **DENSE, **OLD, "hidden_act": "silu",
        "rms_norm_eps": 1e-05, "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3,
        "head_dim": 16, "rope_theta": 500.0, "attention_bias": False, "tie_word_embeddings": True, "pad_token_id": 3,
        "rope_scaling": {"type": "dynamic", "alpha": 50.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0,
                         "mscale": 1.0, "mscale_all_dim": 1.0},
    }, matters={"rope_theta": 100.0, "rope_scaling": {"type": "dynamic", "alpha": 5.0, "factor": 1.0},
                "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "olmo2_three_kv_heads": Variant("OLMo 2", {
        **named("olmo2", "Olmo2ForCausalLM"), **DENSE, **OLD, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3, "rope_theta": 50000.0,
        "rope_scaling": None, "attention_bias": True, "tie_word_embeddings": False, "pad_token_id": 3,
    }, matters={"rope_theta": 100.0, "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "olmo3_windows_yarn": Variant("OLMo 3", {
        **named("olmo3", "Olmo3ForCausalLM"), **DENSE, **OLD, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "rope_theta": 50000.0, "rope_scaling": {**YARN, "original_max_position_embeddings": 16},
        "attention_bias": False, "tie_word_embeddings": False, "sliding_window": WINDOW, "pad_token_id": 3,
    }, matters={"rope_theta": 100.0, "rope_scaling": None, "rms_norm_eps": 0.01, "hidden_act": "gelu",
                "sliding_window": WINDOW + 1}),
    "olmoe_shares_of_all": Variant("OLMoE", {
        **named("olmoe", "OlmoeForCausalLM"), **DENSE_HEADS, **OLD, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "hidden_size": 72, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 9,
        "num_key_value_heads": 3, "rope_theta": 50000.0, "rope_scaling": None, "attention_bias": False,
        "clip_qkv": None, "num_experts": 5, "num_experts_per_tok": 2, "norm_topk_prob": False,
        "output_router_logits": False, "router_aux_loss_coef": 0.01, "tie_word_embeddings": False, "pad_token_id": 3,
    }, matters={"norm_topk_prob": True, "num_experts_per_tok": 3, "rope_theta": 100.0, "rms_norm_eps": 0.01,
                "hidden_act": "gelu"}),
    "qwen3_moe_unnormed_shares": Variant("Qwen3-MoE", {
        **QWEN3_MOE, **NEW, "vocab_size": 259, "num_experts": 6, "norm_topk_prob": False, "num_hidden_layers": 2,
        "rope_parameters": default_rope(1000000.0), "tie_word_embeddings": False,
    }, matters={"norm_topk_prob": True, "num_experts_per_tok": 3}),
    "qwen2_moe_shared_expert": Variant("Qwen2-MoE", {
        **QWEN2_MOE, **OLD, "hidden_size": 72, "num_attention_heads": 9, "num_key_value_heads": 3,
        "rope_theta": 50000.0, "qkv_bias": True, "shared_expert_intermediate_size": 96, "decoder_sparse_step": 1,
        "mlp_only_layers": [1], "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2,
    }, matters={"norm_topk_prob": True, "num_experts_per_tok": 3, "rope_theta": 100.0, "rms_norm_eps": 0.01,
                "sliding_window": WINDOW + 1, "max_window_layers": 3, "use_sliding_window": False,
                "hidden_act": "gelu"}),
    "qwen2_moe_sparse_steps": Variant("Qwen2-MoE", {
        **QWEN2_MOE, **NEW, "vocab_size": 259, "num_hidden_layers": 4, "qkv_bias": False, "norm_topk_prob": True,
        "shared_expert_intermediate_size": 100, "decoder_sparse_step": 2, "rope_parameters": default_rope(1000000.0),
    }, matters={"norm_topk_prob": False, "num_experts_per_tok": 1}),
    "qwen3_moe_with_dense_layers": Variant("Qwen3-MoE", {
        **QWEN3_MOE, **NEW, "vocab_size": 259, "mlp_only_layers": [0, 2], "rope_parameters": default_rope(1000000.0),
        "tie_word_embeddings": False,
    }, matters={"num_experts_per_tok": 3}),
    "ministral3_scaled_queries": Variant("Ministral 3", {
        **named("ministral3", "Ministral3ForCausalLM"), **DENSE, **NEW, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3, "sliding_window": None,
        "tie_word_embeddings": False, "pad_token_id": 11, "rope_parameters": MINISTRAL3_ROPE,
    }, matters={"rope_parameters": {**MINISTRAL3_ROPE, "llama_4_scaling_beta": 0.3}, "rms_norm_eps": 0.01,
                "hidden_act": "gelu"}),
    "glm4_moe_groups": Variant("GLM-4-MoE", {
        **named("glm4_moe", "Glm4MoeForCausalLM"), **DENSE, **OLD, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3, "rope_theta": 50000.0,
        "rope_scaling": None, "partial_rotary_factor": 0.5, "attention_bias": True, "use_qk_norm": True,
        "intermediate_size": 104, "moe_intermediate_size": 48, "n_routed_experts": 8, "num_experts_per_tok": 3,
        "n_shared_experts": 2, "n_group": 4, "topk_group": 2, "norm_topk_prob": True, "routed_scaling_factor": 1.5,
        "first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "tie_word_embeddings": False, "pad_token_id": 0,
    }, matters={"topk_group": 3, "norm_topk_prob": False, "routed_scaling_factor": 1.0, "num_experts_per_tok": 2,
                "rope_theta": 100.0, "partial_rotary_factor": 1.0, "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "glm4_moe_no_groups": Variant("GLM-4-MoE", {
        **named("glm4_moe", "Glm4MoeForCausalLM"), **DENSE, **NEW, "vocab_size": 259, "hidden_act": "silu",
        "num_hidden_layers": 3, "rope_parameters": default_rope(1000000.0, partial_rotary_factor=0.5),
        "attention_bias": False, "use_qk_norm": False, "intermediate_size": 104, "moe_intermediate_size": 48,
        "n_routed_experts": 5, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
        "norm_topk_prob": False, "routed_scaling_factor": 1.0, "first_k_dense_replace": 2,
        "tie_word_embeddings": False, "num_mtp_layers": 0,
    }, matters={"norm_topk_prob": True, "routed_scaling_factor": 2.0}),
    "deepseek_v2_groups": Variant("DeepSeek-V2", {
        **named("deepseek_v2", "DeepseekV2ForCausalLM"), **LATENT, **OLD, "hidden_size": 60, "num_attention_heads": 5,
        "num_key_value_heads": 5, "q_lora_rank": None, "rope_theta": 50000.0, "attention_bias": False,
        "rope_scaling": {"type": "yarn", "factor": 8.0, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707,
                         "mscale_all_dim": 0.707, "original_max_position_embeddings": 16},
        "n_routed_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 2, "n_group": 4, "topk_group": 2,
        "topk_method": "group_limited_greedy", "norm_topk_prob": False, "routed_scaling_factor": 3.0,
        "scoring_func": "softmax", "moe_layer_freq": 1, "aux_loss_alpha": 0.001, "seq_aux": True,
    }, matters={"topk_method": "greedy", "topk_group": 3, "routed_scaling_factor": 1.0, "num_experts_per_tok": 2,
                "rope_theta": 100.0, "rope_scaling": None, "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "deepseek_v2_greedy_biases": Variant("DeepSeek-V2", {
        **named("deepseek_v2", "DeepseekV2ForCausalLM"), **LATENT, **NEW, "vocab_size": 259,
        "hidden_size": 60, "num_attention_heads": 6, "num_key_value_heads": 6, "q_lora_rank": 40,
        "attention_bias": True, "rope_parameters": default_rope(), "n_routed_experts": 5, "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "first_k_dense_replace": 0, "topk_method": "greedy", "n_group": 1, "topk_group": 1,
    }, matters={"num_experts_per_tok": 3}),
    "deepseek_v3_groups": Variant("DeepSeek-V3", {
        **named("deepseek_v3", "DeepseekV3ForCausalLM"), **LATENT, **OLD, "hidden_size": 72, "num_attention_heads": 9,
        "num_key_value_heads": 9, "q_lora_rank": 40, "rope_theta": 50000.0, "attention_bias": False,
        "rope_scaling": {"type": "yarn", "factor": 8.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                         "mscale_all_dim": 1.0, "original_max_position_embeddings": 16},
        "n_routed_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 2, "n_group": 4, "topk_group": 2,
        "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True, "routed_scaling_factor": 2.5,
        "moe_layer_freq": 1, "ep_size": 1, "num_nextn_predict_layers": 1,
    }, matters={"topk_group": 3, "norm_topk_prob": False, "routed_scaling_factor": 1.0, "num_experts_per_tok": 2,
                "rope_theta": 100.0, "rope_scaling": None, "rms_norm_eps": 0.01, "hidden_act": "gelu",
                "rope_interleave": False}),
    "deepseek_v3_halves_biases": Variant("DeepSeek-V3", {
        **named("deepseek_v3", "DeepseekV3ForCausalLM"), **LATENT, **NEW, "vocab_size": 259,
        "hidden_size": 60, "num_attention_heads": 5, "num_key_value_heads": 5, "q_lora_rank": None,
        "attention_bias": True, "rope_parameters": default_rope(), "rope_interleave": False, "n_routed_experts": 5,
        "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "norm_topk_prob": False,
        "routed_scaling_factor": 1.5, "first_k_dense_replace": 2, "num_mtp_layers": 0,
    }, matters={"norm_topk_prob": True, "rope_interleave": True}),
    "glm4_moe_lite_one_dense": Variant("GLM-4.7-Flash", {
        **{key: value for key, value in LATENT.items() if key != "first_k_dense_replace"},
        **named("glm4_moe_lite", "Glm4MoeLiteForCausalLM"), **NEW, "hidden_size": 72, "num_attention_heads": 9,
        "num_key_value_heads": 9, "q_lora_rank": 40, "qk_rope_head_dim": 4, "attention_bias": False,
        "rope_parameters": default_rope(1000000.0, partial_rotary_factor=1.0), "n_routed_experts": 6,
        "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "norm_topk_prob": True,
        "topk_method": "noaux_tc", "routed_scaling_factor": 1.8, "num_nextn_predict_layers": 1, "pad_token_id": 0,
    }, matters={"norm_topk_prob": False, "routed_scaling_factor": 1.0, "num_experts_per_tok": 3,
                "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "mistral4_scaled_queries": Variant("Mistral 4", {
        **LATENT, **named("mistral4", "Mistral4ForCausalLM"), **NEW, "hidden_size": 72, "num_attention_heads": 9,
        "num_key_value_heads": 9, "q_lora_rank": 40, "attention_bias": False, "n_routed_experts": 6,
        "num_experts_per_tok": 3, "n_shared_experts": 1, "n_group": 3, "topk_group": 2, "norm_topk_prob": True,
        "routed_scaling_factor": 1.5, "rope_interleave": True,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "beta_fast": 32.0,
                            "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3,
                            "original_max_position_embeddings": 8, "max_position_embeddings": 128,
                            "partial_rotary_factor": 0.4},
    }, matters={"norm_topk_prob": False, "routed_scaling_factor": 1.0, "num_experts_per_tok": 2, "topk_group": 3,
                "rope_interleave": False, "rms_norm_eps": 0.01}),
    "ernie4_5_moe_dense_ends": Variant("ERNIE 4.5 MoE", {
        **named("ernie4_5_moe", "Ernie4_5_MoeForCausalLM"), **DENSE, **OLD, "hidden_act": "silu",
        "rms_norm_eps": 1e-05, "num_hidden_layers": 4, "num_attention_heads": 9, "num_key_value_heads": 3,
        "rope_theta": 50000.0, "rope_scaling": None, "use_bias": False, "tie_word_embeddings": True,
        "pad_token_id": 0, "intermediate_size": 104, "moe_intermediate_size": 40, "moe_num_experts": 6, "moe_k": 2,
        "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 2, "moe_layer_interval": 1,
        "moe_norm_min": 1e-12,
    }, matters={"moe_k": 3, "moe_norm_min": 0.9, "rope_theta": 100.0, "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "minimax_m2_three_kv_heads": Variant("MiniMax-M2", {
        **named("minimax_m2", "MiniMaxM2ForCausalLM"), **DENSE, **OLD, "hidden_act": "silu", "rms_norm_eps": 1e-06,
        "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3,
        "rope_theta": 50000.0, "rotary_dim": 8, "num_local_experts": 5, "num_experts_per_tok": 2,
        "scoring_func": "sigmoid", "use_routing_bias": True, "use_qk_norm": True, "qk_norm_type": "per_layer",
        "tie_word_embeddings": False, "sliding_window": None, "router_jitter_noise": 0.0,
    }, matters={"num_experts_per_tok": 3, "rope_theta": 100.0, "rotary_dim": 16, "rms_norm_eps": 0.01,
                "hidden_act": "gelu"}),
    "dots1_windows": Variant("dots.llm1", {
        **named("dots1", "Dots1ForCausalLM"), **DENSE, **OLD, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3, "rope_theta": 50000.0,
        "rope_scaling": None, "attention_bias": True, "intermediate_size": 104, "moe_intermediate_size": 48,
        "n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 2, "n_group": 3, "topk_group": 2,
        "norm_topk_prob": True, "routed_scaling_factor": 2.5, "first_k_dense_replace": 1,
        "sliding_window": WINDOW, "max_window_layers": 2, "scoring_func": "noaux_tc", "tie_word_embeddings": False,
    }, matters={"topk_group": 1, "norm_topk_prob": False, "routed_scaling_factor": 1.0, "num_experts_per_tok": 1,
                "rope_theta": 100.0, "rms_norm_eps": 0.01, "sliding_window": WINDOW + 1, "max_window_layers": 1,
                "hidden_act": "gelu"}),
    "exaone_moe_mixed_windows": Variant("EXAONE MoE", {
        **named("exaone_moe", "ExaoneMoeForCausalLM"), **DENSE, **NEW, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "num_hidden_layers": 4, "num_attention_heads": 9, "num_key_value_heads": 3,
        "rope_parameters": default_rope(50000.0), "intermediate_size": 104, "moe_intermediate_size": 48,
        "num_experts": 6, "num_experts_per_tok": 2, "num_shared_experts": 1, "n_group": 1, "topk_group": 1,
        "norm_topk_prob": True, "routed_scaling_factor": 2.5, "sliding_window": WINDOW, "sliding_window_pattern": "LLLG",
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        "mlp_layer_types": ["dense", "sparse", "dense", "sparse"], "first_k_dense_replace": 1,
        "tie_word_embeddings": False, "pad_token_id": 0, "head_dim": 16,
    }, matters={"norm_topk_prob": False, "routed_scaling_factor": 1.0, "num_experts_per_tok": 3,
                "sliding_window": WINDOW + 1, "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "hy_v3_biases": Variant("Hy3", {
        **named("hy_v3", "HYV3ForCausalLM"), **DENSE, **NEW, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3,
        "rope_parameters": default_rope(50000.0), "attention_bias": True, "mlp_bias": False,
        "intermediate_size": 104, "moe_intermediate_size": 48, "num_experts": 5, "num_experts_per_tok": 2,
        "num_shared_experts": 1, "router_scaling_factor": 2.5, "enable_moe_fp32_combine": True,
        "tie_word_embeddings": False,
    }, matters={"router_scaling_factor": 1.0, "num_experts_per_tok": 3, "rms_norm_eps": 0.01, "hidden_act": "gelu"}),
    "llama4_text_chunks": Variant("Llama 4", {
        **named("llama4_text", "Llama4ForCausalLM"), **DENSE, **OLD, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "num_hidden_layers": 4, "num_attention_heads": 9, "num_key_value_heads": 3, "rope_theta": 50000.0,
        "rope_scaling": None, "attention_bias": False, "intermediate_size": 48, "intermediate_size_mlp": 104,
        "num_local_experts": 5, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "use_qk_norm": False,
        "no_rope_layers": [1, 0, 1, 1], "no_rope_layer_interval": 4, "attention_chunk_size": WINDOW,
        "attn_temperature_tuning": True, "floor_scale": 8, "attn_scale": 0.3, "router_jitter_noise": 0.0,
        "for_llm_compressor": False, "tie_word_embeddings": False,
    }, matters={"num_experts_per_tok": 2, "rope_theta": 100.0, "rms_norm_eps": 0.01, "no_rope_layers": [1, 1, 1, 0],
                "attention_chunk_size": WINDOW + 1, "attn_temperature_tuning": False, "floor_scale": 16,
                "attn_scale": 0.1, "hidden_act": "gelu"}),
    "llama4_text_normed_heads": Variant("Llama 4", {
        **named("llama4_text", "Llama4ForCausalLM"), **DENSE, **NEW, "hidden_act": "silu", "rms_norm_eps": 1e-05,
        "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
        "rope_parameters": default_rope(50000.0), "attention_bias": False, "intermediate_size": 40,
        "intermediate_size_mlp": 96, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_layers": [0, 2],
        "use_qk_norm": True, "no_rope_layers": [1, 1, 0], "attention_chunk_size": WINDOW,
        "attn_temperature_tuning": False, "floor_scale": 8, "attn_scale": 0.3, "tie_word_embeddings": False,
    }, matters={"use_qk_norm": False, "no_rope_layers": [1, 0, 1], "rms_norm_eps": 0.1}),
    "phi_three_kv_heads": Variant("Phi", {
        **named("phi", "PhiForCausalLM"), **DENSE_HEADS, **OLD, "hidden_act": "gelu_new", "layer_norm_eps": 1e-05,
        "hidden_size": 96, "intermediate_size": 100, "num_hidden_layers": 3, "num_attention_heads": 6,
        "num_key_value_heads": 3, "rope_theta": 50000.0, "rope_scaling": None, "partial_rotary_factor": 0.5,
        "qk_layernorm": False, "embd_pdrop": 0.0, "resid_pdrop": 0.1, "tie_word_embeddings": False,
    }, matters={"rope_theta": 100.0, "partial_rotary_factor": 0.25, "layer_norm_eps": 0.01, "hidden_act": "relu"}),
    "falcon_grouped": Variant("Falcon", {
        **FALCON, **OLD, "hidden_size": 96, "num_attention_heads": 6, "num_kv_heads": 3, "vocab_size": 256,
        "new_decoder_architecture": True, "bias": True, "ffn_hidden_size": 100, "rope_theta": 50000.0,
        "rope_scaling": None, "tie_word_embeddings": False,
    }, matters={"rope_theta": 100.0, "layer_norm_epsilon": 0.01, "activation": "relu"}),
    "falcon_one_kv_head_tied": Variant("Falcon", {
        **FALCON, **NEW, "hidden_size": 72, "num_attention_heads": 9, "vocab_size": 259, "multi_query": True,
        "new_decoder_architecture": False, "bias": False, "apply_residual_connection_post_layernorm": False,
        "rope_parameters": default_rope(),
    }, stored="bare"),
    "falcon_sequential": Variant("Falcon", {
        **FALCON, **OLD, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 257, "multi_query": False,
        "new_decoder_architecture": False, "parallel_attn": False, "bias": True, "num_hidden_layers": 2,
    }),
    "cohere_three_kv_heads_tied": Variant("Cohere", {
        **named("cohere", "CohereForCausalLM"), **DENSE_HEADS, **OLD, "hidden_act": "silu", "layer_norm_eps": 1e-05,
        "hidden_size": 72, "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3,
        "rope_theta": 50000.0, "logit_scale": 0.25, "use_qk_norm": False, "attention_bias": True, "pad_token_id": 0,
        "model_max_length": 128,
    }, matters={"rope_theta": 100.0, "layer_norm_eps": 0.01, "logit_scale": 0.125, "hidden_act": "gelu"}),
    "cohere2_mixed_windows": Variant("Cohere 2", {
        **named("cohere2", "Cohere2ForCausalLM"), **DENSE_HEADS, **OLD, "hidden_act": "silu", "layer_norm_eps": 1e-05,
        "hidden_size": 72, "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3,
        "rope_theta": 50000.0, "logit_scale": 0.25, "attention_bias": False, "pad_token_id": 0,
        "sliding_window": WINDOW, "sliding_window_pattern": 2, "tie_word_embeddings": True,
    }, matters={"rope_theta": 100.0, "layer_norm_eps": 0.01, "logit_scale": 0.125, "hidden_act": "gelu",
                "sliding_window": WINDOW + 1, "sliding_window_pattern": 3}),
    "nemotron_three_kv_heads": Variant("Nemotron", {
        **named("nemotron", "NemotronForCausalLM"), **DENSE, **OLD, "hidden_act": "relu2", "norm_eps": 1e-05,
        "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3, "rope_theta": 50000.0,
        "partial_rotary_factor": 0.5, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False,
    }, matters={"rope_theta": 100.0, "partial_rotary_factor": 0.25, "norm_eps": 0.01, "hidden_act": "relu"}),
}  # fmt: skip
