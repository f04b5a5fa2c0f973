// Open requests as values: the request and its delivered tokens. Another process, or a later run, can continue them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/request.h"
#include "runtime/core/field_list.h"

namespace lockstep::requests {

/// One answer of a suspended request.
struct AnswerSoFar {
  std::vector<int32_t> ids;
  std::optional<FinishReason> reason;  // set for a complete answer

  friend bool operator==(const AnswerSoFar&, const AnswerSoFar&) = default;
};
LOCKSTEP_FIELDS(AnswerSoFar, ids, reason);

/// A request without functions or objects of its caller, and without its deadline.
struct SuspendedRequest {
  std::vector<int32_t> ids, negative;  // of the prompt
  int64_t masked_inside = 0;           // of the prompt
  std::vector<float> embeddings;       // of the prompt
  GenerationConfig config;
  uint64_t random_row = 0;
  int32_t model_logprobs = -1;
  bool special_text = false;
  int32_t priority = 0;
  std::string client;
  std::vector<AnswerSoFar> answers;

  friend bool operator==(const SuspendedRequest&, const SuspendedRequest&) = default;
};
LOCKSTEP_FIELDS(SuspendedRequest, ids, negative, masked_inside, embeddings, config, random_row, model_logprobs,
                special_text, priority, client, answers);

/// The answers of `Request::delivered`; none: the request begins.
std::optional<std::vector<AnswerSoFar>> delivered_of(const Request& request);

/// As JSON text. `engine`: the identity of the one that answered them until now (EngineFacts).
std::string to_text(const std::vector<SuspendedRequest>& requests, const std::string& engine);

/// Fails with `kInvalidArgument` for text that `to_text` did not write, with `kFailedPrecondition` for another engine,
/// whose answers would go on with other bits.
Result<std::vector<SuspendedRequest>> parse_suspended(std::string_view text, const std::string& engine);

}  // namespace lockstep::requests
