// A tiny model, and engines of small groups that serve it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/engine.h"
#include "tests/model/hashed_weights.h"
#include "tests/model/tiny_models.h"
#include "tests/model/tiny_weights.h"

namespace lockstep {

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override { model::write_hashed_weights(folder_.path(), model::llama_tensors(), /*seed=*/3, {}); }

  Model model() const { return Model::open(folder_.path()).value(); }

  static EngineOptions small() { return {.slots = 2, .capacity = 24, .threads = 1}; }

  std::unique_ptr<Engine> open(Group& group, EngineOptions options = small()) const {
    return Engine::open(group, model(), options).value();
  }

  Request request(std::vector<int32_t> ids, const Overrides& overrides = {{"max_new_tokens", "6"}}) const {
    Request request{.prompt = {.ids = std::move(ids)}, .config = model().generation()};
    request.config.eos_token_ids.clear();
    for (const auto& [name, value] : overrides) {
      EXPECT_TRUE(request.config.set(std::string(name), std::string(value)).has_value()) << name;
    }
    return request;
  }

  static std::vector<int32_t> ids_of(Engine& engine, Request request) {
    return engine.submit(std::move(request)).value().wait().value().at(0).ids;
  }

  /// The ids of one rank alone.
  std::vector<int32_t> alone(Request request) const {
    const auto group = Group::alone().value();
    const auto engine = open(*group);
    const std::vector<int32_t> ids = ids_of(*engine, std::move(request));
    EXPECT_TRUE(engine->close().has_value());
    return ids;
  }

  model::TinyModel folder_{model::kTinyLlama};
  const std::vector<int32_t> prompt_ = {1, 5, 9, 5, 9};
};

}  // namespace lockstep
