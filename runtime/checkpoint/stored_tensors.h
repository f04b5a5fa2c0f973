// The weights of every family by uniform names. Model code requests a weight by its canonical name and shape, those of
// Llama. Reading resolves renamed, transposed, fused, interleaved, stacked and mxfp4 tensors (stored_names.cpp lists
// the layouts of each family).
//
//   model.embed_tokens.weight [V,E]                  model.embed_positions.weight [P,H]   (OPT: P + 2 rows)
//   model.embed_norm.{weight,bias} [H]               model.project_in.weight [H,E] · project_out.weight [E,H]
//   model.norm.{weight,bias} [H]                     lm_head.{weight [V,E],bias [V]}
//   model.layers.n.
//     input_layernorm, post_attention_layernorm .{weight,bias} [H]
//     pre_feedforward_layernorm, post_feedforward_layernorm .weight [H]
//     self_attn.{q,k,v,o}_proj.{weight [out,in],bias [out]} · self_attn.{q,k}_norm.weight [hd] · self_attn.sinks [nh]
//     self_attn.{q_a,q_b,kv_a}_proj, {q_a,kv_a}_norm              latent attention
//     self_attn.latent_key_proj.weight [nh·rank,plain] · latent_value_proj.weight [nh·value,rank]
//     mlp.{gate,up,down}_proj.{weight [out,in],bias [out]}      an MLP without a gate has up and down
//     mlp.router.{weight [experts,H],bias [experts]}
//     mlp.experts.e.{gate,up,down}_proj.{weight [out,in],bias [out]}
//
// A matrix in codes whose columns are grouped by a list (act-order) is read with its columns sorted by group, if groups
// have one size; ….column_order [in] has the number of each of these columns, a float.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// Opens `directory` as a model of `spec`, with its tensors under their canonical names; tensors not in the list are
/// omitted. An entry has the canonical name, shape and size; location and strides are those of the underlying stored
/// tensor, and its `stored_dtype` is "MXFP4" for such weights. The fingerprint is that of the files. Fails as
/// `open_checkpoint` does, and with `kInvalidArgument` when the first layer has no tensor or the shape of a fused
/// tensor cannot be divided according to `spec`.
///
/// If a tied model's files hold only the head, it is also the embedding.
Result<std::unique_ptr<Checkpoint>> open_model_checkpoint(const std::filesystem::path& directory,
                                                          const ModelSpec& spec);

/// The formats in which the files of `directory` hold the matrices of `spec`: those of its config, with the type of the
/// stored scales, none where a file has elements, and `ordered` only for columns in another order than their positions.
/// What `Checkpoint::read_codes` gives. Reads headers and, of matrices in another order, that order. Fails as
/// `open_model_checkpoint` does, and with `kUnsupported` when experts of one layer differ. @blocking (disk)
Result<WeightFormats> stored_weight_formats(const std::filesystem::path& directory, const ModelSpec& spec);

/// Whether `rows` (of the vocabulary) of the head and of the embedding differ. A tied model's files may hold both, and
/// transformers ties them only if they are equal. False if one of the two is absent, as usual. Fails as
/// `open_model_checkpoint` does, and when a tensor cannot be read. @blocking (disk)
Result<bool> holds_own_head(const std::filesystem::path& directory, const ModelSpec& spec, Range rows);

}  // namespace lockstep::checkpoint
