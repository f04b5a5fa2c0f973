// Keys of a config that have no effect on what a model computes. Private to this folder.
#pragma once

#include <string_view>

namespace lockstep::checkpoint {

/// Keys without effect in every family, by reason.
inline constexpr std::string_view kIdleKeys[] = {
    // the older name of dtype, where both are present; ropes, of which one is read, and their keys are known by
    // themselves
    "torch_dtype",
    "rope_scaling",
    "rope_parameters",
    // training: initial weights, dropout, losses
    "initializer_range",
    "attention_dropout",
    "hidden_dropout",
    "residual_dropout",
    "embedding_dropout",
    "neftune_noise_alpha",
    "gradient_checkpointing",
    "output_router_logits",
    "router_aux_loss_coef",
    // slices of the training's matrices; transformers' decoders with rotary positions do not read it
    "pretraining_tp",
    // which class of which library, where it came from, how its kernels are chosen
    "architectures",
    "auto_map",
    "transformers_version",
    "_name_or_path",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_flash_attn_2_enabled",
    "attn_implementation",
    "torchscript",
    "use_bfloat16",
    "transformers.js_config",
    "unsloth_fixed",
    "unsloth_version",
    // what the class returns beside logits, and whether it keeps keys and values
    "use_cache",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "problem_type",
    "finetuning_task",
    "task_specific_params",
    "num_labels",
    "_num_labels",
    "id2label",
    "label2id",
    "chunk_size_feed_forward",
    // of the tokenizer, and of models with an encoder
    "tokenizer_class",
    "prefix",
    "sep_token_id",
    "unk_token_id",
    "decoder_start_token_id",
    "tie_encoder_decoder",
    // maximum of the training of some ropes; the kinds without it do not read it
    "original_max_position_embeddings",
};

}  // namespace lockstep::checkpoint
