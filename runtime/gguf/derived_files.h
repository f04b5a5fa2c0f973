// The files that a GGUF model stands for. Private to this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/gguf/gguf_model.h"

namespace lockstep::gguf {

Result<nlohmann::json> make_config(const GgufModel& model);
Result<nlohmann::json> make_generation_config(const GgufModel& model);
Result<nlohmann::json> make_tokenizer(const GgufModel& model);
Result<nlohmann::json> make_tokenizer_config(const GgufModel& model);

/// The ids that end an answer: those that the metadata names, and the token that ends a turn of its chat template.
Result<std::vector<int64_t>> end_ids(const GgufModel& model);

}  // namespace lockstep::gguf
