// Qwen3-Next and Qwen 3.5, as model types of transformers.
#include <fmt/format.h>

#include "runtime/gguf/config_writer.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;

/// The sizes of linear attention, whose names are those of state-space models.
Result<void> write_linear_attention(ConfigWriter& writer) {
  json& config = writer.config();
  constexpr KeyPair kKeys[] = {{"ssm.conv_kernel", "linear_conv_kernel_dim"},
                               {"ssm.state_size", "linear_key_head_dim"},
                               {"ssm.group_count", "linear_num_key_heads"},
                               {"ssm.time_step_rank", "linear_num_value_heads"}};
  LOCKSTEP_TRY_VOID(writer.copy(kKeys));
  LOCKSTEP_TRY(const int64_t heads, writer.integer("ssm.time_step_rank"));
  LOCKSTEP_TRY(const int64_t values, writer.integer("ssm.inner_size"));
  if (heads < 1 || values % heads != 0) {
    return writer.wrong("ssm.inner_size", fmt::format("found {}, expected a multiple of the {} heads", values, heads));
  }
  config["linear_value_head_dim"] = values / heads;
  return ok();
}

/// Which layers have attention: a list, or every fourth one, or as the interval says.
Result<void> write_recurrent_layers(ConfigWriter& writer) {
  json& config = writer.config();
  LOCKSTEP_TRY(const json recurrent, writer.value("attention.recurrent_layers"));
  if (!recurrent.is_array()) {
    LOCKSTEP_TRY(config["full_attention_interval"], writer.integer_or("full_attention_interval", 4));
    return ok();
  }
  json types = json::array();
  for (const json& value : recurrent) {
    if (types.size() == config["num_hidden_layers"]) break;  // then layers that draft tokens
    types.push_back(value == true || value == 1 ? "linear_attention" : "full_attention");
  }
  config["layer_types"] = std::move(types);
  return ok();
}

Result<void> finish_qwen35(ConfigWriter& writer) {
  LOCKSTEP_TRY_VOID(leave_out_drafting_layers(writer));
  LOCKSTEP_TRY_VOID(write_linear_attention(writer));
  LOCKSTEP_TRY_VOID(write_recurrent_layers(writer));
  return write_rotated_part(writer, "partial_rotary_factor");
}

Result<void> finish_qwen35moe(ConfigWriter& writer) {
  LOCKSTEP_TRY_VOID(finish_qwen35(writer));
  constexpr KeyPair kKeys[] = {{"expert_count", "num_experts"},
                               {"expert_used_count", "num_experts_per_tok"},
                               {"expert_feed_forward_length", "moe_intermediate_size"},
                               {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}};
  writer.erase("intermediate_size");
  return writer.copy(kKeys);
}

constexpr Architecture kRecurrent[] = {
    {"qwen35", "qwen3_5_text", "rms_norm_eps", finish_qwen35},
    {"qwen35moe", "qwen3_5_moe_text", "rms_norm_eps", finish_qwen35moe},
    {"qwen3next", "qwen3_next", "rms_norm_eps", finish_qwen35moe},
};

}  // namespace

std::span<const Architecture> recurrent_architectures() { return kRecurrent; }

}  // namespace lockstep::gguf
