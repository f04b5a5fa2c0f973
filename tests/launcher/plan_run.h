// Plans of tiny models: what `lockstep plan` prints, and its JSON.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "launcher/measure/plan/plan.h"
#include "tests/model/tiny_models.h"

namespace lockstep::launcher {

using Json = nlohmann::json;

/// 9 query and 3 key/value heads.
inline constexpr const char* kNineHeads = R"({
  "model_type": "llama", "hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 9,
  "num_key_value_heads": 3, "head_dim": 4, "intermediate_size": 72, "hidden_act": "silu", "vocab_size": 96,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
  "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2})";

struct Printed {
  Result<void> result;
  std::string text;
};

inline Printed run(const PlanCommand& command) {
  ::testing::internal::CaptureStdout();
  Result<void> result = plan(command);
  std::fflush(stdout);
  return {result, ::testing::internal::GetCapturedStdout()};
}

/// The JSON of a plan for a tiny model.
class PlanRun : public ::testing::Test {
 protected:
  Json planned(const char* config, PlanCommand command) {
    const model::TinyModel model(config);
    command.model.directory = model.path();
    command.json = model.path() / "plan.json";
    printed_ = run(command);
    EXPECT_TRUE(printed_.result.has_value()) << printed_.result.error().message;
    return Json::parse(std::ifstream(*command.json));
  }
  const std::string& text() const { return printed_.text; }

 private:
  Printed printed_{ok(), ""};
};

inline PlanCommand small_plan(int max_tp) {
  PlanCommand command;
  command.max_tp = max_tp;
  command.new_tokens = 4;
  return command;
}

}  // namespace lockstep::launcher
