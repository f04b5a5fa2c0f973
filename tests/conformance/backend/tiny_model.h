// A tiny two-layer decoder on 1 to 4 ranks, with weights from a hash. It has the graphs of a real family, and functions
// that run prompts chunk by chunk and token by token.
#pragma once

#include <functional>
#include <vector>

#include "tests/conformance/backend/session.h"

namespace lockstep::conformance {

/// The kind of the second layer; the first is always a Llama's.
enum class SecondLayer { kLlama, kWindowAndExperts };

struct TinyOptions {
  DType dtype = DType::kFloat32;
  int ranks = 1;
  int64_t chunk = 8;  // rows of a prefill step
  int64_t slots = 3;
  SecondLayer second_layer = SecondLayer::kLlama;
};

inline constexpr int64_t kTinyVocabulary = 37;

/// One rank's prefill (0) and decode (1) graphs, and the contents of its weights and states.
struct TinyRank {
  std::vector<graph::Graph> graphs;
  Contents contents;
};
TinyRank make_tiny_rank(const TinyOptions& options, int rank);

/// The result of a run of some prompts; prompt i is in slot i.
struct Transcript {
  std::vector<std::vector<int32_t>> tokens;     // [prompt][step]
  std::vector<std::vector<TensorData>> logits;  // [prompt][step]: f32 [vocabulary]
};

/// How a rank is driven.
struct Driver {
  std::function<Outcome(size_t graph, const Contents& inputs)> run;
  std::function<void(const Contents& states)> set;
};

/// Prefills the prompts in chunks (rows of several prompts share a chunk) and decodes `steps` − 1 further tokens.
Transcript generate(const Driver& driver, const TinyOptions& options, const std::vector<std::vector<int32_t>>& prompts,
                    int steps);

/// The same on a backend, with the number of ranks in `options`; the transcript is rank 0's.
Transcript generate_on(const BackendUnderTest& backend, const TinyOptions& options,
                       const std::vector<std::vector<int32_t>>& prompts, int steps, int threads = 1);
Transcript generate_on_scalar_model(const TinyOptions& options, const std::vector<std::vector<int32_t>>& prompts,
                                    int steps);

}  // namespace lockstep::conformance
