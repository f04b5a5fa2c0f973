#include "engine/requests/parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/requests/sizing.h"
#include "runtime/generation/choosers.h"

namespace lockstep::requests {
namespace {

shards::SlotParameters parameters_of(const Request& request, int32_t budget, uint64_t row) {
  const std::vector<int32_t>& eos = request.config.eos_token_ids;
  return {.sampling = request.config.sampling(row),
          .max_new_tokens = budget,
          .eos_ids = eos,
          .pad_id = request.config.pad_token_id.value_or(eos.empty() ? 0 : eos.front()),
          .min_new_tokens = request.config.least_new_tokens(std::ssize(request.prompt.ids))};
}

}  // namespace

Result<std::shared_ptr<TokenChooser>> chooser_of(const Request& request, const Part& part, const Serving& serving) {
  if (request.chooser) return request.chooser;
  std::vector<int32_t> tokens = request.prompt.ids;
  const auto embedded = static_cast<int64_t>(std::erase(tokens, kEmbedded));
  generation::ChooserRequest wanted{
      .config = request.config,
      .prompt = std::move(tokens),
      .prefilled = embedded > 0 ? request.prompt.ids : std::vector<int32_t>{},
      .negative_prompt = request.prompt.negative,
      .vocabulary = serving.model.spec().vocabulary,
      .max_length = std::ssize(request.prompt.ids) - embedded + part.request.parameters.max_new_tokens,
      .row = request.random_row + part.first_answer,
      .clock = &serving.clock,
      .tokenizer = request.config.num_beams > 1 ? serving.tokenizer : nullptr,
      .model_top = request.model_logprobs,
      .processors = {request.processors, request.allowed_tokens},
      .criteria = request.criteria,
      .constraint = request.constraint};
  // Lengths of options count embeddings, the history does not have them.
  wanted.config.min_length = std::max<int32_t>(0, wanted.config.min_length - static_cast<int32_t>(embedded));
  LOCKSTEP_TRY(std::unique_ptr<TokenChooser> made, generation::make_chooser(std::move(wanted)));
  return std::shared_ptr<TokenChooser>(std::move(made));  // shared with the session
}

Result<std::vector<Part>> parts_of(const Request& request, const Serving& serving) {
  const GenerationConfig& config = request.config;
  LOCKSTEP_TRY(const int32_t budget, budget_of(request, serving.model, serving.limits.capacity));
  const bool by_host = is_host_chosen(request);
  const bool beams = config.num_beams > 1;
  const auto answers = request.chooser ? size_t{1} : static_cast<size_t>(config.num_return_sequences);
  std::optional<TimePoint> deadline;
  if (request.deadline) deadline = serving.clock.now() + *request.deadline;
  std::vector<Part> parts;
  for (size_t copy = 0; copy < (beams ? 1 : answers); ++copy) {
    Part part{.request = {.id = {},
                          .ids = request.prompt.ids,
                          .parameters = parameters_of(request, budget, request.random_row + copy),
                          .priority = request.priority,
                          .client = request.client,
                          .deadline = deadline},
              .first_answer = copy,
              .answers = beams ? answers : 1,
              .as_made = !beams};
    const bool wants_logits = config.output_logits || request.model_logprobs >= 0;
    if (wants_logits && !by_host) part.request.logits = actors::Logits::kWanted;
    if (!request.prompt.embeddings.empty()) {
      part.request.embeddings = std::make_shared<const std::vector<float>>(request.prompt.embeddings);
    }
    if (request.on_token) part.request.delivery = actors::Delivery::kAtOnce;
    if (by_host) {
      part.follows = !beams && !request.chooser && request.criteria.empty();
      LOCKSTEP_TRY(part.request.chooser, chooser_of(request, part, serving));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace lockstep::requests
