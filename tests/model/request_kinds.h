// Requests of many kinds for a golden's model: what its answers depend on besides the prompt.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/engine.h"
#include "tests/model/golden.h"

namespace lockstep::model {

/// Adds to the score of every id that the sequence does not have.
class Novelty final : public LogitsProcessor {
 public:
  void process(std::span<const int32_t> ids, std::span<float> scores) const override {
    for (size_t id = 0; id < scores.size(); ++id) {
      if (std::ranges::find(ids, static_cast<int32_t>(id)) == ids.end()) scores[id] += 0.5f;
    }
  }
};

/// `with_code`: one has a processor of the caller's too.
inline std::vector<Request> requests_of(const Golden& golden, const Model& model, bool with_code) {
  std::vector<Request> requests;
  const auto add = [&](size_t prompt, const Overrides& overrides) -> Request& {
    Request& request = requests.emplace_back(Request{
        .prompt = {.ids = golden.prompts.at(prompt)}, .config = model.generation(), .random_row = requests.size()});
    request.config.eos_token_ids.clear();
    request.config.max_new_tokens = 12;  // of host-chosen ones: below the place where longrope's factors change
    for (const auto& [name, value] : overrides) EXPECT_TRUE(request.config.set(name, value).has_value()) << name;
    return request;
  };
  add(4, {{"max_new_tokens", "75"}});
  add(5,
      {{"max_new_tokens", "50"}, {"do_sample", "true"}, {"seed", "5"}, {"repetition_penalty", "1.3"}, {"top_k", "25"}});
  add(3, {{"num_beams", "3"}, {"num_return_sequences", "2"}});
  add(2, {{"guidance_scale", "1.7"}});
  add(5, {{"no_repeat_ngram_size", "2"}, {"top_logprobs", "2"}});
  add(4, {{"max_new_tokens", "40"}, {"do_sample", "true"}, {"seed", "9"}, {"num_return_sequences", "2"}});
  if (with_code) add(3, {}).processors = {std::make_shared<Novelty>()};
  return requests;
}

}  // namespace lockstep::model
