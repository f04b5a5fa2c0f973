// A tiny model without weights, for entry points whose readers need a model.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "lockstep/model.h"

namespace lockstep::fuzz {

inline constexpr const char* kTinyConfig = R"({
  "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
  "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 16, "hidden_act": "silu", "vocab_size": 32,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2})";

/// Its files are read at once and removed.
inline Model tiny_model() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("lockstep_fuzz_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << kTinyConfig;
  Model model = Model::open(folder).value();
  fs::remove_all(folder);
  return model;
}

}  // namespace lockstep::fuzz
