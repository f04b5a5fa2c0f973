#include "engine/requests/request_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "engine/requests/sizing.h"
#include "lockstep/engine.h"

namespace lockstep {
namespace requests {
namespace {

Error unsupported(const std::string& found, std::string_view expected) {
  return {ErrorKind::kUnsupported,
          fmt::format("[engine/requests] cannot serve the request: found {}, expected {}", found, expected)};
}

/// Rejects requests that need the host if the logits do not reach it.
Result<void> check_host_work(const Request& request, const Limits& limits) {
  const bool by_host = is_host_chosen(request);
  if (!by_host && !request.config.output_logits && request.model_logprobs < 0) return ok();
  if (limits.drafts > 0) {
    return unsupported("options that the host has to apply beside drafted tokens",
                       "greedy or sampled rows whose tokens the graphs choose; omit one or the other");
  }
  if (limits.choosers == Choosers::kAllowed) return ok();
  const std::string what = has_own_code(request)
                               ? "code of the caller's"
                               : fmt::format("{}", fmt::join(generation::host_choices(request.config), ", "));
  const std::string_view logits = request.config.output_logits ? "output_logits" : "model_logprobs";
  return unsupported(by_host ? fmt::format("options that the host has to apply ({})", what) : std::string(logits),
                     "those of the graphs; open the engine with Choosers::kAllowed");
}

Result<void> check_logprobs(const Request& request, int64_t vocabulary) {
  if (request.model_logprobs < -1 || request.model_logprobs > vocabulary) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[engine/requests] model_logprobs: found {}, expected -1 to {}, the vocabulary; lower it",
                             request.model_logprobs, vocabulary)};
  }
  if (request.model_logprobs < 0 || request.chooser == nullptr) return ok();
  return unsupported("model_logprobs beside a chooser of the caller's", "options; let the chooser keep records");
}

Result<void> check_slots(const Request& request, const Limits& limits) {
  int64_t rows = 1;
  if (is_host_chosen(request)) rows = request.chooser ? request.chooser->rows() : rows_of(request.config);
  if (rows <= limits.slots) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[engine/requests] --batch-size: found {} slots, expected at least {} (the rows of one "
                           "prompt: beams, or a negative prompt beside it); raise it",
                           limits.slots, rows)};
}

Result<void> check_embeddings(const Request& request, int64_t size, const Limits& limits) {
  const Prompt& prompt = request.prompt;
  const auto rows = std::ranges::count(prompt.ids, kEmbedded);
  if (std::ssize(prompt.embeddings) != rows * size) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[engine/requests] cannot take the prompt: found {} numbers of embeddings, expected {} ({} ids "
                    "kEmbedded, rows of {}); correct it",
                    prompt.embeddings.size(), rows * size, rows, size)};
  }
  if (rows == 0) return ok();
  if (limits.embeddings == PromptEmbeddings::kOff) {
    return unsupported("embeddings in its prompt", "tokens; open the engine with PromptEmbeddings::kOn");
  }
  if (request.config.guidance_scale != 1.0) {
    return unsupported("guidance beside embeddings in the prompt", "one of them");
  }
  const bool is_all = std::cmp_equal(rows, prompt.ids.size());
  if (!is_all || !request.config.watermarking_config) return ok();
  return unsupported("a watermark after embeddings alone", "a token in the prompt, with which the watermark begins");
}

}  // namespace

bool has_own_code(const Request& request) {
  return !request.processors.empty() || !request.criteria.empty() || request.allowed_tokens != nullptr ||
         request.constraint != nullptr || request.chooser != nullptr;
}

bool is_host_chosen(const Request& request) {
  return has_own_code(request) || generation::needs_host_choice(request.config);
}

Result<int32_t> budget_of(const Request& request, const Model& model, int64_t capacity) {
  if (request.chooser && !request.config.max_new_tokens) return static_cast<int32_t>(capacity);
  // A length of generation_config.json was written without regard to slots.
  const GenerationConfig& file = model.generation();
  const bool is_files =
      request.config.max_new_tokens == file.max_new_tokens && request.config.max_length == file.max_length;
  return budget_of(request.config, is_files ? LengthFrom::kFile : LengthFrom::kCaller, request.prompt, capacity);
}

Result<void> check(const Request& request, const Model& model, const Limits& limits) {
  const GenerationConfig& config = request.config;
  LOCKSTEP_TRY_VOID(config.validate());
  LOCKSTEP_TRY_VOID(check_host_work(request, limits));
  LOCKSTEP_TRY_VOID(check_logprobs(request, model.spec().vocabulary));
  LOCKSTEP_TRY_VOID(check_slots(request, limits));
  if (request.chooser != nullptr) return ok();
  LOCKSTEP_TRY_VOID(check_prompt(request.prompt, model.spec().vocabulary, limits.capacity));
  LOCKSTEP_TRY_VOID(check_embeddings(request, model.spec().embedding_size, limits));
  if (!request.prompt.negative.empty() && config.guidance_scale == 1.0) {
    return contradiction("a negative prompt without guidance", "--guidance-scale other than 1; add it or omit both");
  }
  LOCKSTEP_TRY(const int32_t budget, budget_of(request, model, limits.capacity));
  return check_masked(request.prompt, budget, model.spec());
}

Result<void> check_text(std::span<const int32_t> ids, int64_t top, const Model& model, const Limits& limits) {
  if (limits.scored_top < 0) {
    return unsupported("a text to score", "an engine that can; open it with Scoring::kOn");
  }
  if (top < 0 || top > limits.scored_top) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[engine/requests] cannot score: found top {}, expected 0 to {}; lower it, or raise "
                             "EngineOptions::scored_top as far as the vocabulary",
                             top, limits.scored_top)};
  }
  if (ids.empty()) {
    return Error{ErrorKind::kInvalidArgument,
                 "[engine/requests] cannot score: found an empty text, expected at least one token; leave it out"};
  }
  // The last token is only predicted, so it needs no room.
  return check_prompt({.ids = {ids.begin(), ids.end()}}, model.spec().vocabulary, limits.capacity + 1);
}

}  // namespace requests

namespace {

requests::Limits limits_of(const Model& model, const EngineOptions& options) {
  return {.slots = options.slots.value_or(1),
          .capacity = options.capacity.value_or(model.longest_sequence().value_or(model.spec().max_positions)),
          .choosers = options.choosers,
          .drafts = options.drafting.tokens,
          .scored_top = options.scoring != Scoring::kOff ? std::min(options.scored_top, model.spec().vocabulary) : -1,
          .embeddings = options.prompt_embeddings};
}

}  // namespace

Result<void> check_request(const Model& model, const EngineOptions& options, const Request& request) {
  return requests::check(request, model, limits_of(model, options));
}

Result<void> check_texts(const Model& model, const EngineOptions& options, std::span<const std::vector<int32_t>> texts,
                         int64_t top) {
  const requests::Limits limits = limits_of(model, options);
  for (size_t text = 0; text < texts.size(); ++text) {
    const Result<void> checked = requests::check_text(texts[text], top, model, limits);
    if (checked.has_value()) continue;
    return Error{checked.error().kind, fmt::format("{} (text {})", checked.error().message, text)};
  }
  return ok();
}

}  // namespace lockstep
