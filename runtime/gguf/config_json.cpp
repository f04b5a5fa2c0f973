// config.json and generation_config.json of a GGUF model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "runtime/gguf/config_writer.h"
#include "runtime/gguf/derived_files.h"
#include "runtime/gguf/metadata.h"
#include "runtime/gguf/read_error.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;

constexpr KeyPair kCommon[] = {{"context_length", "max_position_embeddings"},
                               {"block_count", "num_hidden_layers"},
                               {"embedding_length", "hidden_size"},
                               {"feed_forward_length", "intermediate_size"},
                               {"attention.head_count", "num_attention_heads"},
                               {"attention.head_count_kv", "num_key_value_heads"},
                               {"attention.key_length", "head_dim"},
                               {"rope.freq_base", "rope_theta"}};

/// Tokens that end a turn in some chat template. Files name one end, and models of a chat stop at this one too.
constexpr std::string_view kEndsOfTurns[] = {"<|im_end|>", "<|eot_id|>",      "<|end|>",    "<end_of_turn>",
                                             "<turn|>",    "<|end_of_turn|>", "<|return|>", "<|call|>"};

std::vector<Architecture> architectures() {
  std::vector<Architecture> all;
  for (const auto group : {dense_architectures(), gemma_architectures(), plain_architectures(), expert_architectures(),
                           recurrent_architectures()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  std::ranges::sort(all, {}, &Architecture::name);
  return all;
}

Result<Architecture> architecture_of(const GgufModel& model) {
  LOCKSTEP_TRY(const auto name, text_of(model.parts.front(), "general.architecture"));
  if (!name) return damaged(model.path(), "found no key general.architecture, expected one");
  std::vector<std::string_view> known;
  for (const Architecture& architecture : architectures()) {
    if (architecture.name == *name) return architecture;
    known.push_back(architecture.name);
  }
  return unsupported(model.path(),
                     fmt::format("found the architecture {}, expected one of: {}", *name, fmt::join(known, ", ")));
}

/// The type to compute in: that of the largest tensor if it is a float, else bfloat16.
std::string_view dtype_of(const GgufModel& model) {
  const TensorRecord* largest = nullptr;
  for (const GgufHeader& part : model.parts) {
    for (const TensorRecord& tensor : part.tensors) {
      if (largest == nullptr || tensor.bytes > largest->bytes) largest = &tensor;
    }
  }
  if (largest == nullptr || largest->type->name == "F32") return "float32";
  return largest->type->name == "F16" ? "float16" : "bfloat16";
}

Result<void> write_vocabulary(ConfigWriter& writer) {
  const TensorRecord* const embedding = writer.model().find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return damaged(writer.model().path(), "found no matrix token_embd.weight, expected the embedding");
  }
  writer.config()["vocab_size"] = embedding->shape[0];
  return ok();
}

Result<void> write_tokens(const GgufModel& model, json& config) {
  LOCKSTEP_TRY(const std::vector<int64_t> ends, end_ids(model));
  config["eos_token_id"] = ends.empty() ? json() : json(ends);
  LOCKSTEP_TRY(const auto bos, integer_of(model.parts.front(), "tokenizer.ggml.bos_token_id"));
  config["bos_token_id"] = bos ? json(*bos) : json();
  LOCKSTEP_TRY(const auto pad, integer_of(model.parts.front(), "tokenizer.ggml.padding_token_id"));
  config["pad_token_id"] = pad ? json(*pad) : json();
  return ok();
}

}  // namespace

Result<std::vector<int64_t>> end_ids(const GgufModel& model) {
  const GgufHeader& header = model.parts.front();
  std::vector<int64_t> ids;
  const auto add = [&](int64_t id) {
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  };
  for (const char* name : {"eos", "eot", "eom"}) {
    LOCKSTEP_TRY(const auto id, integer_of(header, fmt::format("tokenizer.ggml.{}_token_id", name)));
    if (id) add(*id);
  }
  LOCKSTEP_TRY(const auto chat, text_of(header, "tokenizer.chat_template"));
  if (!chat) return ids;
  LOCKSTEP_TRY(const auto tokens, texts_of(header, "tokenizer.ggml.tokens"));
  for (const std::string_view end : kEndsOfTurns) {
    if (chat->find(end) == std::string::npos) continue;
    const auto found = std::ranges::find(tokens, end);
    if (found != tokens.end()) add(found - tokens.begin());
  }
  return ids;
}

Result<json> make_config(const GgufModel& model) {
  LOCKSTEP_TRY(const Architecture architecture, architecture_of(model));
  ConfigWriter writer(model, std::string(architecture.name));
  json& config = writer.config();
  config["model_type"] = architecture.model_type;
  LOCKSTEP_TRY_VOID(writer.copy(kCommon));
  const bool has_mean = !writer.has("attention.layer_norm_rms_epsilon");
  const KeyPair epsilon[] = {
      {has_mean ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", architecture.epsilon}};
  LOCKSTEP_TRY_VOID(writer.copy(epsilon));
  if (!config.contains("num_key_value_heads")) config["num_key_value_heads"] = config["num_attention_heads"];
  LOCKSTEP_TRY_VOID(write_vocabulary(writer));
  config["tie_word_embeddings"] = !writer.has_tensor("output.weight");
  config["torch_dtype"] = dtype_of(model);
  if (!architecture.own_ropes) LOCKSTEP_TRY_VOID(write_rope_scaling(writer));
  if (architecture.finish != nullptr) LOCKSTEP_TRY_VOID(architecture.finish(writer));
  return config;
}

Result<json> make_generation_config(const GgufModel& model) {
  json config = json::object();
  LOCKSTEP_TRY_VOID(write_tokens(model, config));
  constexpr KeyPair kSampling[] = {{"general.sampling.temp", "temperature"},
                                   {"general.sampling.top_k", "top_k"},
                                   {"general.sampling.top_p", "top_p"},
                                   {"general.sampling.min_p", "min_p"},
                                   {"general.sampling.penalty_repeat", "repetition_penalty"}};
  for (const KeyPair& pair : kSampling) {
    LOCKSTEP_TRY(json value, value_of(model.parts.front(), pair.key));
    if (!value.is_null()) config[std::string(pair.name)] = std::move(value);
  }
  const auto temperature = config.find("temperature");
  if (temperature == config.end()) return config;
  config["do_sample"] = temperature->is_number() && temperature->get<double>() > 0.0;
  if (!config["do_sample"]) config.erase("temperature");
  return config;
}

}  // namespace lockstep::gguf
