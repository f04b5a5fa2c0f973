#include "launcher/serve/api/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep::serve {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kMostStops = 16;
constexpr size_t kMostEnds = 16;

/// A number that is a generation option of another name.
struct NumberField {
  std::string_view name, option;
  double least = -kInfinity, most = kInfinity;
  bool whole = false;
  std::string_view expected;
};
constexpr NumberField kNumbers[] = {
    {"top_p", "top_p", std::numeric_limits<double>::min(), 1, false, "above 0 and at most 1"},
    {"min_p", "min_p", 0, 1, false, "0 to 1"},
    {"typical_p", "typical_p", std::numeric_limits<double>::min(), 1, false, "above 0 and at most 1"},
    {"presence_penalty", "presence_penalty", -2, 2, false, "-2 to 2"},
    {"frequency_penalty", "frequency_penalty", -2, 2, false, "-2 to 2"},
    {"repetition_penalty", "repetition_penalty", std::numeric_limits<double>::min(), 1e6, false, "above 0"},
    {"min_tokens", "min_new_tokens", 0, 1 << 24, true, "0 or more"},
};

ApiResult<void> read_numbers(const BodyField& body, Generation& generation) {
  for (const NumberField& row : kNumbers) {
    const auto field = body.find(row.name);
    if (!field) continue;
    if (row.whole) {
      LOCKSTEP_TRY([[maybe_unused]] const int64_t whole, field->whole());
    }
    LOCKSTEP_TRY(const double value, field->number());
    if (value < row.least || value > row.most) {
      return field->invalid(fmt::format("found {}, expected {}", field->value().dump(), row.expected));
    }
    generation.options[std::string(row.option)] = row.whole ? fmt::format("{}", int64_t(value)) : field->dump();
  }
  return ok();
}

ApiResult<void> read_temperature(const BodyField& body, Generation& generation) {
  generation.options["do_sample"] = "true";
  const auto field = body.find("temperature");
  if (!field) return ok();
  LOCKSTEP_TRY(const double value, field->number());
  if (value < 0) return field->invalid(fmt::format("found {}, expected 0 or more", field->value().dump()));
  if (value == 0) {
    generation.options["do_sample"] = "false";
  } else {
    generation.options["temperature"] = field->dump();
  }
  return ok();
}

ApiResult<void> read_top_k(const BodyField& body, const ReadContext& context, Generation& generation) {
  LOCKSTEP_TRY(const auto top_k, body.whole_within("top_k", -1, INT32_MAX));
  if (top_k) {
    generation.options["top_k"] = std::to_string(std::max<int64_t>(*top_k, 0));  // −1 and 0: all
  } else if (!context.text->facts().sets_top_k) {
    generation.options["top_k"] = "0";
  }
  return ok();
}

/// Any whole number of 64 bits; a negative one is as good as another.
ApiResult<void> read_seed(const BodyField& body, const ReadContext& context, Generation& generation) {
  uint64_t seed = context.fresh_seed;
  if (const auto field = body.find("seed")) {
    if (field->value().is_number_unsigned()) {
      seed = field->value().get<uint64_t>();
    } else {
      LOCKSTEP_TRY(const int64_t value, field->whole());
      seed = static_cast<uint64_t>(value);
    }
  }
  generation.options["seed"] = std::to_string(seed);
  return ok();
}

ApiResult<void> read_stops(const BodyField& body, Generation& generation) {
  const auto field = body.find("stop");
  if (!field) return ok();
  LOCKSTEP_TRY(const auto stops, field->texts());
  if (stops.size() > kMostStops) {
    return field->invalid(fmt::format("found {} texts, expected at most {}", stops.size(), kMostStops));
  }
  if (std::ranges::find(stops, std::string()) != stops.end()) {
    return field->invalid("found an empty text, expected at least one character; omit it");
  }
  if (!stops.empty()) generation.options["stop_strings"] = to_line(Json(stops));
  return ok();
}

ApiResult<void> read_ends(const BodyField& body, const ReadContext& context, Generation& generation) {
  LOCKSTEP_TRY(const bool ignore_eos, body.flag_or("ignore_eos", false));
  const auto field = body.find("stop_token_ids");
  std::vector<int32_t> ends;
  if (field) {
    LOCKSTEP_TRY(ends, field->ids(context.vocabulary));
  }
  if (!ignore_eos && ends.empty()) return ok();  // the model's own
  if (!ignore_eos) {
    for (const int32_t id : context.text->facts().end_ids) {
      if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
    }
  }
  if (ends.size() > kMostEnds) {
    return field->invalid(
        fmt::format("found {} ids with the model's own, expected at most {}", ends.size(), kMostEnds));
  }
  generation.options["eos_token_id"] = Json(ends).dump();
  return ok();
}

/// {"50256": -100}
ApiResult<void> read_bias(const BodyField& body, const ReadContext& context, Generation& generation) {
  const auto field = body.find("logit_bias");
  if (!field) return ok();
  LOCKSTEP_TRY_VOID(field->object());
  Json biases = Json::array();
  for (const auto& [name, value] : field->value().items()) {
    const BodyField bias(value, fmt::format("logit_bias.{}", name));
    const bool digits = !name.empty() && name.size() <= 9 && name.find_first_not_of("0123456789") == std::string::npos;
    const int64_t id = digits ? std::stoll(name) : -1;
    if (id < 0 || id >= context.vocabulary) {
      return bias.invalid(fmt::format("found this name, expected a token id from 0 to {}", context.vocabulary - 1));
    }
    LOCKSTEP_TRY(const double number, bias.number());
    if (std::abs(number) > 100) return bias.invalid(fmt::format("found {}, expected -100 to 100", value.dump()));
    if (number != 0) biases.push_back(Json::array({Json::array({id}), number}));
  }
  if (!biases.empty()) generation.options["sequence_bias"] = biases.dump();
  return ok();
}

}  // namespace

ApiResult<void> refuse_unsupported(const BodyField& body, std::span<const UnsupportedField> fields) {
  for (const UnsupportedField& row : fields) {
    const auto field = body.find(row.name);
    if (!field || field->value() == Json(false)) continue;
    if (!row.off.empty() && field->value() == Json::parse(row.off)) continue;
    ApiError error = field->invalid("is not supported by this server; omit it");
    error.code = "unsupported_parameter";
    return error;
  }
  return ok();
}

ApiResult<void> check_model(const BodyField& body, const ReadContext& context) {
  LOCKSTEP_TRY(const std::string model, body.text_or("model", context.model));
  if (model == context.model) return ok();
  return ApiError{
      .status = 404,
      .code = "model_not_found",
      .param = "model",
      .message = fmt::format("model: found \"{}\", expected \"{}\", the model of this server", model, context.model)};
}

ApiResult<void> read_sampling(const BodyField& body, const ReadContext& context, Generation& generation) {
  LOCKSTEP_TRY_VOID(read_temperature(body, generation));
  LOCKSTEP_TRY_VOID(read_top_k(body, context, generation));
  LOCKSTEP_TRY_VOID(read_numbers(body, generation));
  LOCKSTEP_TRY_VOID(read_seed(body, context, generation));
  LOCKSTEP_TRY_VOID(read_stops(body, generation));
  LOCKSTEP_TRY_VOID(read_ends(body, context, generation));
  LOCKSTEP_TRY_VOID(read_bias(body, context, generation));
  LOCKSTEP_TRY(const bool skips_special, body.flag_or("skip_special_tokens", true));
  generation.special_text = !skips_special;
  LOCKSTEP_TRY(const auto priority, body.whole_within("priority", -(1 << 24), 1 << 24));
  generation.priority = -static_cast<int>(priority.value_or(0));  // vLLM's: lower goes first
  return ok();
}

ApiResult<std::optional<int64_t>> read_length(const BodyField& body, std::string_view name, int64_t least) {
  const auto field = body.find(name);
  if (!field) return std::optional<int64_t>();
  LOCKSTEP_TRY(const int64_t length, field->whole());
  if (length < least) return field->invalid(fmt::format("found {}, expected {} or more", length, least));
  return std::optional(length);
}

ApiResult<StreamFields> read_stream(const BodyField& body) {
  StreamFields fields;
  LOCKSTEP_TRY(fields.stream, body.flag_or("stream", false));
  if (const auto options = body.find("stream_options")) {
    LOCKSTEP_TRY(const BodyField object, options->object());
    LOCKSTEP_TRY(fields.include_usage, object.flag_or("include_usage", false));
    LOCKSTEP_TRY(fields.continuous_usage, object.flag_or("continuous_usage_stats", false));
  }
  return fields;
}

ApiResult<void> fit_lengths(const ReadContext& context, Generation& generation) {
  const size_t choices = std::max(generation.choices, generation.best_of);
  if (generation.prompts.size() > context.most_choices / choices) {
    return invalid_field("n", fmt::format("n: found {} answers to {} prompts, expected at most {} answers together",
                                          choices, generation.prompts.size(), context.most_choices));
  }
  int64_t longest = 0;
  for (const Prompt& prompt : generation.prompts) longest = std::max(longest, std::ssize(prompt.ids));
  const int64_t room = context.capacity - longest;
  const int64_t asked = generation.max_new_tokens.value_or(1);
  if (asked <= room) {
    if (!generation.max_new_tokens) generation.max_new_tokens = room;
    return ok();
  }
  if (!generation.shorten || room < 1) {
    return context_exceeded(longest, asked, context.capacity, room < 1 ? std::string() : generation.length_field);
  }
  generation.max_new_tokens = room;
  return ok();
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.new_tokens},
          {"total_tokens", usage.prompt_tokens + usage.new_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
}

std::string_view finish_text(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength: return "length";
    case FinishReason::kToolCalls: return "tool_calls";
    case FinishReason::kStop:
    case FinishReason::kCancelled: return "stop";
  }
  return "stop";
}

}  // namespace lockstep::serve
