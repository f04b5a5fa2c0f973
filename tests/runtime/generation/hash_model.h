// A model whose logits are an integer hash of all previous ids. tools/make_generation_goldens.py uses the same one with
// Hugging Face's generate(). Multiples of 2^-20 in [-8, 8), so floats hold them exactly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/generation/token_chooser.h"

namespace lockstep::generation {

inline std::vector<float> hash_logits(std::span<const int32_t> ids, int64_t vocabulary) {
  uint32_t state = 0x811c9dc5u;
  for (const int32_t id : ids) state = (state ^ static_cast<uint32_t>(id)) * 0x01000193u;
  std::vector<float> logits;
  for (uint32_t token = 0; token < static_cast<uint32_t>(vocabulary); ++token) {
    uint32_t x = state + token * 0x9e3779b1u;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    x ^= x >> 15;
    logits.push_back(static_cast<float>(x >> 8) * 0x1p-20f - 8.0f);
  }
  return logits;
}

/// Feeds the choices of `chooser` to the model until it has finished; returns the number of its calls.
inline int run_on_hash_model(TokenChooser& chooser, int64_t vocabulary) {
  std::vector<std::vector<int32_t>> caches = chooser.prompts();
  for (int steps = 1;; ++steps) {
    std::vector<float> logits;
    for (const std::vector<int32_t>& cache : caches) {
      const std::vector<float> row =
          cache.empty() ? std::vector<float>(static_cast<size_t>(vocabulary)) : hash_logits(cache, vocabulary);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const Choice choice = chooser.choose(logits);
    if (choice.finished) return steps;
    const std::vector<std::vector<int32_t>> before = caches;
    for (size_t r = 0; r < caches.size(); ++r) {
      caches[r] = before[static_cast<size_t>(choice.sources[r])];
      caches[r].push_back(choice.tokens[r]);
    }
  }
}

}  // namespace lockstep::generation
