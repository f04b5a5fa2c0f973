#include "runtime/generation/token_record.h"

#include <algorithm>
#include <numeric>

#include "runtime/generation/log_softmax.h"

namespace lockstep::generation {

std::shared_ptr<const TokenRecord> record_token(const RecordOptions& options, std::span<const float> logits,
                                                std::span<const float> scores, int32_t token) {
  if (!options.wants_any()) return nullptr;
  const double total = log_sum_exp(scores);
  const auto logprob_of = [&](int32_t id) { return static_cast<float>(scores[static_cast<size_t>(id)] - total); };
  auto record = std::make_shared<TokenRecord>();
  record->logprob = logprob_of(token);
  if (options.top > 0) {
    std::vector<int32_t> ids(scores.size());
    std::iota(ids.begin(), ids.end(), 0);
    const auto end = ids.begin() + std::min<ptrdiff_t>(options.top, std::ssize(ids));
    std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
      const float score_a = scores[static_cast<size_t>(a)];
      const float score_b = scores[static_cast<size_t>(b)];
      return score_a != score_b ? score_a > score_b : a < b;
    });
    for (auto id = ids.begin(); id != end; ++id) record->top.push_back({*id, logprob_of(*id)});
  }
  if (options.scores) record->scores.assign(scores.begin(), scores.end());
  if (options.logits) record->logits.assign(logits.begin(), logits.end());
  return record;
}

}  // namespace lockstep::generation
