#include "runtime/generation/token_record.h"

#include <algorithm>
#include <numeric>

#include "runtime/generation/log_softmax.h"
#include "runtime/sampling/scoring.h"

namespace lockstep::generation {
namespace {

void add_scores(const RecordOptions& options, std::span<const float> scores, int32_t token, TokenRecord& record) {
  const double total = log_sum_exp(scores);
  const auto logprob_of = [&](int32_t id) { return static_cast<float>(scores[static_cast<size_t>(id)] - total); };
  record.logprob = logprob_of(token);
  if (options.top == 0) return;
  std::vector<int32_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min<ptrdiff_t>(options.top, std::ssize(ids));
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    const float score_a = scores[static_cast<size_t>(a)];
    const float score_b = scores[static_cast<size_t>(b)];
    return score_a != score_b ? score_a > score_b : a < b;
  });
  for (auto id = ids.begin(); id != end; ++id) record.top.push_back({*id, logprob_of(*id)});
}

/// By the arithmetic of the graph operation `score`, so that both have the same bits.
void add_model(int32_t top, std::span<const float> logits, int32_t token, TokenRecord& record) {
  const float total = sampling::log_sum_exp(logits);
  record.model_logprob = logits[static_cast<size_t>(token)] - total;
  std::vector<int32_t> ids(std::min(static_cast<size_t>(top), logits.size()));
  sampling::highest_ids(logits, ids);
  for (const int32_t id : ids) record.model_top.push_back({id, logits[static_cast<size_t>(id)] - total});
}

}  // namespace

std::shared_ptr<const TokenRecord> record_token(const RecordOptions& options, std::span<const float> logits,
                                                std::span<const float> scores, int32_t token) {
  if (!options.wants_any()) return nullptr;
  auto record = std::make_shared<TokenRecord>();
  if (options.wants_scores()) add_scores(options, scores, token, *record);
  if (options.model_top >= 0) add_model(options.model_top, logits, token, *record);
  if (options.scores) record->scores.assign(scores.begin(), scores.end());
  if (options.logits) record->logits.assign(logits.begin(), logits.end());
  return record;
}

}  // namespace lockstep::generation
