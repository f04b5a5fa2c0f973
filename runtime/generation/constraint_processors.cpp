#include "runtime/generation/constraint_processors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/core/check.h"

namespace lockstep::generation {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

bool is_in(int32_t id, std::span<const float> scores) { return id >= 0 && static_cast<size_t>(id) < scores.size(); }

void set(std::span<const int32_t> ids, float value, std::span<float> scores) {
  for (const int32_t id : ids) {
    if (is_in(id, scores)) scores[static_cast<size_t>(id)] = value;
  }
}

void force(std::span<const int32_t> ids, std::span<float> scores) {
  std::ranges::fill(scores, kExcluded);
  set(ids, 0.0f, scores);
}

bool is_all_excluded(std::span<const float> scores) {
  return std::ranges::all_of(scores, [](float score) { return score == kExcluded; });
}

/// `allowed` is sorted.
void exclude_others(std::span<const int32_t> allowed, std::span<float> scores) {
  for (size_t id = 0; id < scores.size(); ++id) {
    if (!std::ranges::binary_search(allowed, static_cast<int32_t>(id))) scores[id] = kExcluded;
  }
}

}  // namespace

void MinLength::process(std::span<const int32_t> ids, std::span<float> scores) const {
  if (std::ssize(ids) < length_) set(eos_, kExcluded, scores);
}

std::vector<int32_t> PrefixAllowed::allowed_after(std::span<const int32_t> ids, size_t vocabulary) const {
  std::vector<int32_t> allowed = allowed_(request_, ids);
  LOCKSTEP_CHECK(!allowed.empty(), request_, ids.size());
  std::ranges::sort(allowed);
  LOCKSTEP_CHECK(allowed.front() >= 0 && static_cast<size_t>(allowed.back()) < vocabulary, allowed.front(),
                 allowed.back(), vocabulary);
  return allowed;
}

void PrefixAllowed::process(std::span<const int32_t> ids, std::span<float> scores) const {
  const std::vector<int32_t> allowed = allowed_after(ids, scores.size());
  exclude_others(allowed, scores);
  if (is_all_excluded(scores)) set(allowed, 0.0f, scores);
}

void PrefixAllowed::process_rows(std::span<const std::vector<int32_t>> rows, std::span<float> scores) const {
  const size_t vocabulary = scores.size() / rows.size();
  std::vector<std::vector<int32_t>> allowed;
  for (size_t r = 0; r < rows.size(); ++r) {
    allowed.push_back(allowed_after(rows[r], vocabulary));
    exclude_others(allowed.back(), scores.subspan(r * vocabulary, vocabulary));
  }
  if (!is_all_excluded(scores)) return;
  for (size_t r = 0; r < rows.size(); ++r) set(allowed[r], 0.0f, scores.subspan(r * vocabulary, vocabulary));
}

void ForcedFirst::process(std::span<const int32_t> ids, std::span<float> scores) const {
  if (ids.size() == 1) force({&id_, 1}, scores);
}

void ForcedLast::process(std::span<const int32_t> ids, std::span<float> scores) const {
  if (std::ssize(ids) == max_length_ - 1) force(ids_, scores);
}

void RemoveInvalid::process(std::span<const int32_t>, std::span<float> scores) const {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (float& score : scores) score = std::isnan(score) ? 0.0f : std::clamp(score, -kLargest, kLargest);
}

void LengthDecayPenalty::process(std::span<const int32_t> ids, std::span<float> scores) const {
  const int64_t over = std::ssize(ids) - prompt_length_ - decay_.start;
  if (over <= 0) return;
  const auto share = static_cast<float>(std::pow(decay_.factor, static_cast<double>(over)) - 1.0);
  for (const int32_t id : eos_) {
    if (!is_in(id, scores)) continue;
    float& score = scores[static_cast<size_t>(id)];
    if (std::isfinite(score)) score += std::abs(score) * share;
  }
}

void Suppress::process(std::span<const int32_t>, std::span<float> scores) const { set(ids_, kExcluded, scores); }

void SuppressAtBegin::process(std::span<const int32_t> ids, std::span<float> scores) const {
  if (std::ssize(ids) == begin_) set(ids_, kExcluded, scores);
}

}  // namespace lockstep::generation
