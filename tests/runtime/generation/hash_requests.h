// Requests to the model of hash_model.h.
#pragma once

#include <utility>
#include <vector>

#include "runtime/generation/choosers.h"
#include "tests/runtime/generation/hash_model.h"

namespace lockstep::generation {

inline constexpr int64_t kVocabulary = 30;

/// For `new_tokens` behind a prompt of three.
inline ChooserRequest request_of(GenerationConfig config, int64_t new_tokens = 10) {
  ChooserRequest request;
  request.config = std::move(config);
  request.prompt = {7, 3, 9};
  request.vocabulary = kVocabulary;
  request.max_length = 3 + new_tokens;
  return request;
}

/// Its answers.
inline std::vector<Sequence> run(const ChooserRequest& request) {
  const auto chooser = make_chooser(request).value();
  run_on_hash_model(*chooser, kVocabulary);
  return chooser->sequences();
}

}  // namespace lockstep::generation
