#include "tests/step/tiny_rank.h"

#include "runtime/backends/cpu/cpu.h"
#include "runtime/checkpoint/model_spec.h"

namespace lockstep::step {
namespace {

constexpr const char* kConfig = R"({
  "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 64, "hidden_act": "silu", "vocab_size": 64,
  "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2})";

}  // namespace

TinyRank make_tiny_rank(int ranks, int rank, device::Communicator* communicator) {
  const checkpoint::ModelSpec spec = checkpoint::parse_spec(kConfig, "tiny").value();
  const shards::ShardOptions options{
      .slots = 1, .chunk = kPromptTokens, .capacity = kCapacity, .dtype = DType::kBFloat16};
  shards::ShardGraphs graphs =
      shards::build_graphs(spec, partition::make_partition(spec, ranks).value(), rank, options, graph::default_passes())
          .value();
  TinyRank made{.backend = cpu::make_backend({.threads = 1}).value(), .shard = nullptr};
  made.shard =
      shards::Shard::create(std::move(graphs), options, *made.backend, communicator, shards::RandomWeights()).value();
  return made;
}

shards::PrefillRows prompt_rows() {
  shards::PrefillRows rows{.ids = {}, .slot = {}, .position = {}, .logit_rows = {kPromptTokens - 1}};
  for (int32_t i = 0; i < kPromptTokens; ++i) {
    rows.ids.push_back(3 + i);
    rows.slot.push_back(0);
    rows.position.push_back(i);
  }
  return rows;
}

}  // namespace lockstep::step
