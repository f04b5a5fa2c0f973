#include "actors/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::actors {
namespace {

using Prompts = std::vector<std::vector<int32_t>>;

Error refused(const Request& request, std::string_view what, ErrorKind kind = ErrorKind::kInvalidArgument) {
  return {kind, fmt::format("[actors] cannot answer request {}: {}", request.id, what)};
}

Error chooser_failed(const Request& request, std::string_view what) {
  return refused(request, fmt::format("its token chooser failed: {}", what), ErrorKind::kInternal);
}

/// The prompt of every row. A chooser is client code and may throw.
Result<Prompts> prompts_of(const Request& request) {
  if (!request.chooser) return Prompts{request.ids};
  try {
    Prompts prompts = request.chooser->prompts();
    const int64_t rows = request.chooser->rows();
    if (rows == std::ssize(prompts)) return prompts;
    return refused(request, fmt::format("found {} prompts of a token chooser of {} rows, expected one each",
                                        prompts.size(), rows));
  } catch (const std::exception& failure) {
    return chooser_failed(request, failure.what());
  } catch (...) {
    return chooser_failed(request, "it threw an unknown exception");
  }
}

int64_t remaining(const shards::SlotParameters& parameters) {
  return int64_t{parameters.max_new_tokens} - parameters.first_output;
}

Result<void> check_parameters(const Request& request) {
  const shards::SlotParameters& parameters = request.parameters;
  if (remaining(parameters) < 1 || parameters.first_output < 0) {
    return refused(request, fmt::format("found max_new_tokens {} from output {} on, expected at least 1",
                                        parameters.max_new_tokens, parameters.first_output));
  }
  if (parameters.eos_ids.size() > sampling::kMaxEosIds) {
    return refused(
        request, fmt::format("found {} EOS ids, expected at most {}", parameters.eos_ids.size(), sampling::kMaxEosIds));
  }
  return ok();
}

Result<void> check_ids(const Request& request, const std::vector<int32_t>& ids, int32_t least = 0) {
  const auto negative = std::ranges::find_if(ids, [&](int32_t id) { return id < least; });
  if (negative == ids.end()) return ok();
  return refused(request,
                 fmt::format("found token id {} at index {}, expected 0 or more", *negative, negative - ids.begin()));
}

Result<void> check_prompt(const Request& request, const std::vector<int32_t>& ids, const PlannerLimits& limits) {
  LOCKSTEP_TRY_VOID(check_ids(request, ids, request.embeddings ? shards::kEmbedded : 0));
  if (std::ssize(ids) + remaining(request.parameters) - 1 > limits.capacity) {
    return refused(request, fmt::format("found {} prompt tokens and {} new ones, expected at most {} in a slot's cache "
                                        "(the last new token needs no room); raise --max-seq-len or shorten one",
                                        ids.size(), remaining(request.parameters), limits.capacity));
  }
  return ok();
}

/// `ids` is the request's prompt, or its chooser's first.
Result<void> check_embeddings(const Request& request, const std::vector<int32_t>& ids, const PlannerLimits& limits) {
  if (!request.embeddings) return ok();
  if (limits.embedding_size == 0) {
    return refused(request, "found embeddings in its prompt, expected an engine opened with PromptEmbeddings::kOn",
                   ErrorKind::kUnsupported);
  }
  const int64_t expected = std::ranges::count(ids, shards::kEmbedded) * limits.embedding_size;
  if (std::ssize(*request.embeddings) == expected) return ok();
  return refused(request, fmt::format("found {} numbers of embeddings, expected {} (rows of {})",
                                      request.embeddings->size(), expected, limits.embedding_size));
}

/// Whether a sequence outgrows the short factors before its end; the token after the border no longer uses them.
bool crosses(const std::vector<int32_t>& ids, int64_t new_tokens, const PlannerLimits& limits) {
  const int64_t border = limits.long_rope_after;
  return border > 0 && std::ssize(ids) <= border && std::ssize(ids) + new_tokens > border + 1;
}

Result<void> check_chooser(const Request& request, const Prompts& prompts, const PlannerLimits& limits) {
  if (std::ssize(prompts) > limits.slots) {
    return refused(request, fmt::format("found a token chooser of {} rows, expected at most {}, the slots; raise "
                                        "--batch-size",
                                        prompts.size(), limits.slots));
  }
  if (limits.tokens_per_step > 1) {
    return refused(request,
                   "found a token chooser beside drafted tokens, which are chosen by the graph; start without "
                   "speculation, or without what needs the host to choose",
                   ErrorKind::kUnsupported);
  }
  const auto outgrows = [&](const auto& ids) {
    return !ids.empty() && crosses(ids, remaining(request.parameters), limits);
  };
  if (std::ranges::any_of(prompts, outgrows)) {
    return refused(request,
                   fmt::format("found a token chooser whose rows grow past {} tokens, where the model's rope factors "
                               "change, expected all below or prompts beyond; ask for fewer new tokens",
                               limits.long_rope_after),
                   ErrorKind::kUnsupported);
  }
  return ok();
}

Result<void> check(const Request& request, const Prompts& prompts, const PlannerLimits& limits) {
  LOCKSTEP_TRY_VOID(check_parameters(request));
  const auto has_tokens = [](const auto& ids) { return !ids.empty(); };
  if (std::ranges::none_of(prompts, has_tokens)) {
    return refused(request, "found an empty prompt, expected at least one token");
  }
  for (const std::vector<int32_t>& ids : prompts) LOCKSTEP_TRY_VOID(check_prompt(request, ids, limits));
  LOCKSTEP_TRY_VOID(check_embeddings(request, prompts.front(), limits));
  if (request.chooser) return check_chooser(request, prompts, limits);
  if (request.logits == Logits::kWanted && limits.tokens_per_step > 1) {
    return refused(request, "found that its logits are wanted beside drafted tokens; start without speculation",
                   ErrorKind::kUnsupported);
  }
  return ok();
}

Result<void> check_text(const Request& request, const PlannerLimits& limits) {
  if (limits.score_rows == 0) {
    return refused(request, "found a text to score, expected an engine that was opened with Scoring::kOn",
                   ErrorKind::kUnsupported);
  }
  if (request.ids.size() < 2) {
    return refused(request, fmt::format("found a text of {} tokens, expected at least 2", request.ids.size()));
  }
  LOCKSTEP_TRY_VOID(check_ids(request, request.ids));
  if (std::ssize(request.ids) - 1 <= limits.capacity) return ok();
  return refused(request, fmt::format("found a text of {} tokens, expected at most {} (the last one needs no room in a "
                                      "slot's cache); raise --max-seq-len or shorten it",
                                      request.ids.size(), limits.capacity + 1));
}

/// The parameters of a slot of `request`; the graph's choice is unused if the host chooses.
shards::SlotParameters row_parameters(const Request& request) {
  if (!request.chooser) return request.parameters;
  return {.sampling = {},
          .max_new_tokens = static_cast<int32_t>(remaining(request.parameters)),
          .eos_ids = {},
          .pad_id = request.parameters.pad_id};
}

Result<Admission> admit_text(const Request& request, const PlannerLimits& limits) {
  LOCKSTEP_TRY_VOID(check_text(request, limits));
  const bool is_long = limits.long_rope_after > 0 && std::ssize(request.ids) > limits.long_rope_after;
  return Admission{.id = request.id,
                   .rows = {{.ids = request.ids, .parameters = {.sampling = {}, .eos_ids = {}, .long_rope = is_long}}},
                   .new_tokens = 0,
                   .task = Task::kScore,
                   .priority = request.priority,
                   .client = request.client};
}

}  // namespace

Result<Admission> admit(const Request& request, const PlannerLimits& limits) {
  if (request.task == Task::kScore) return admit_text(request, limits);
  LOCKSTEP_TRY(Prompts prompts, prompts_of(request));
  LOCKSTEP_TRY_VOID(check(request, prompts, limits));
  Admission admission{.id = request.id,
                      .rows = {},
                      .new_tokens = remaining(request.parameters),
                      .host_chosen = request.chooser != nullptr,
                      .logits = request.chooser ? Logits::kOmit : request.logits,
                      .delivery = request.delivery,
                      .priority = request.priority,
                      .client = request.client};
  shards::SlotParameters parameters = row_parameters(request);
  if (!request.chooser && crosses(prompts.front(), admission.new_tokens, limits)) {
    admission.goes_on = true;
    admission.new_tokens = limits.long_rope_after + 1 - std::ssize(prompts.front());
    parameters.max_new_tokens = static_cast<int32_t>(parameters.first_output + admission.new_tokens);
  }
  const auto is_long = [&](const auto& ids) {
    return limits.long_rope_after > 0 && std::ssize(ids) > limits.long_rope_after;
  };
  // A copied row has the factors of the first prefilled row.
  const bool copies_are_long = is_long(*std::ranges::find_if(prompts, [](const auto& ids) { return !ids.empty(); }));
  for (std::vector<int32_t>& ids : prompts) {
    parameters.long_rope = ids.empty() ? copies_are_long : is_long(ids);
    admission.rows.push_back({std::move(ids), parameters});
  }
  admission.rows.front().embeddings = request.embeddings;
  return admission;
}

Request rest_of(Request request, const std::vector<int32_t>& tokens) {
  request.ids.insert(request.ids.end(), tokens.begin(), tokens.end());
  request.parameters.first_output += static_cast<int32_t>(tokens.size());
  return request;
}

}  // namespace lockstep::actors
