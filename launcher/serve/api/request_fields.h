// The fields that all generating protocols share, as tables: sampling, lengths, stops, constraints.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "launcher/serve/api/body_field.h"
#include "launcher/serve/api/protocol.h"

namespace lockstep::serve {

/// A field of a protocol that is not supported. Values that mean "off" are accepted: null, false and `off`.
struct UnsupportedField {
  std::string_view name;
  std::string_view off = {};  // JSON text
};

/// Refuses a body with a value for one of `fields`, by name.
ApiResult<void> refuse_unsupported(const BodyField& body, std::span<const UnsupportedField> fields);

/// Fails with status 404, code "model_not_found", when the body names another model.
ApiResult<void> check_model(const BodyField& body, const ReadContext& context);

/// Sampling, penalties, seed, ends and stops: temperature … ignore_eos. Absent fields leave the model's own values;
/// without a temperature tokens are drawn at random.
ApiResult<void> read_sampling(const BodyField& body, const ReadContext& context, Generation& generation);

/// A number of tokens; `least`: the smallest that is allowed.
ApiResult<std::optional<int64_t>> read_length(const BodyField& body, std::string_view name, int64_t least);

/// The constraint that `response_format`, `structured_outputs` or one of the single fields (json_schema of vLLM's
/// guided_json, regex, choice, grammar) asks for; empty: none. More than one is an error.
ApiResult<std::string> read_constraint(const BodyField& body);

/// `stream` and `stream_options`.
struct StreamFields {
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // in every chunk
};
ApiResult<StreamFields> read_stream(const BodyField& body);

/// Checks prompts and length against the capacity, completes or shortens the length.
ApiResult<void> fit_lengths(const ReadContext& context, Generation& generation);

/// {"prompt_tokens": …, "completion_tokens": …, …}
Json usage_json(const Usage& usage);

/// "stop", "length", "tool_calls".
std::string_view finish_text(FinishReason reason);

}  // namespace lockstep::serve
