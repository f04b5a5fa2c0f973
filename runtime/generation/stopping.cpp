#include "runtime/generation/stopping.h"

#include <algorithm>
#include <typeinfo>

#include "runtime/core/check.h"

namespace lockstep::generation {

bool MaxLength::is_met(std::span<const int32_t> ids, std::span<const float>) const {
  return std::ssize(ids) >= length_;
}

void MaxTime::begin() const {
  if (!start_) start_ = clock_->now();
}

bool MaxTime::is_met(std::span<const int32_t>, std::span<const float>) const {
  begin();
  return clock_->now() - *start_ > limit_;
}

bool EndToken::is_met(std::span<const int32_t> ids, std::span<const float>) const {
  return !ids.empty() && std::ranges::find(eos_, ids.back()) != eos_.end();
}

StopText::StopText(const text::Tokenizer& tokenizer, std::vector<std::string> stops)
    : tokenizer_(&tokenizer), stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

/// Decodes as many of the last ids as a match can reach into. A character cut at the front decodes differently; the
/// margin keeps it out of reach.
bool StopText::is_met(std::span<const int32_t> ids, std::span<const float>) const {
  constexpr size_t kMargin = 8;
  if (ids.empty() || stops_.empty()) return false;
  const auto text_of = [&](std::span<const int32_t> part) {
    std::vector<int32_t> tokens(part.begin(), part.end());
    std::erase_if(tokens, [&](int32_t id) { return !tokenizer_->token_of(id); });  // they have no text
    const auto text = tokenizer_->decode(tokens, text::SpecialPieces::kKeep);
    return text.has_value() ? text.value() : std::string();
  };
  size_t before = 0;  // decoded ids before the last one
  std::string earlier;
  while (before + 1 < ids.size() && earlier.size() < longest_ + kMargin) {
    before = std::min(ids.size() - 1, 2 * before + longest_);
    earlier = text_of(ids.last(before + 1).first(before));
  }
  const std::string text = text_of(ids.last(before + 1));
  // The last id may have completed a character at the end of `earlier`.
  const auto same = std::ranges::mismatch(earlier, text).in1 - earlier.begin();
  return std::ranges::any_of(stops_, [&](const std::string& stop) {
    const size_t reach = std::min(static_cast<size_t>(same), stop.size() - 1);
    return text.find(stop, static_cast<size_t>(same) - reach) != std::string::npos;
  });
}

void StoppingCriteria::merge(std::span<const std::shared_ptr<const StoppingCriterion>> users) {
  for (const auto& user : users) {
    const StoppingCriterion& wanted = *user;
    const auto same = std::ranges::find_if(criteria_, [&](const auto& own) {
      const StoppingCriterion& criterion = *own;
      return typeid(criterion) == typeid(wanted);
    });
    if (same != criteria_.end()) {
      *same = user;
    } else {
      criteria_.push_back(user);
    }
  }
}

void StoppingCriteria::begin() const {
  for (const auto& criterion : criteria_) criterion->begin();
}

std::optional<FinishReason> StoppingCriteria::check(std::span<const int32_t> ids, std::span<const float> scores) const {
  for (const auto& criterion : criteria_) {
    if (criterion->is_met(ids, scores)) return criterion->reason();
  }
  return std::nullopt;
}

StoppingCriteria make_stopping(const GenerationConfig& config, const StoppingContext& context) {
  StoppingCriteria criteria;
  if (!config.eos_token_ids.empty()) criteria.add(std::make_shared<EndToken>(config.eos_token_ids));
  criteria.add(std::make_shared<MaxLength>(context.max_length));
  if (config.max_time) {
    LOCKSTEP_CHECK(context.clock != nullptr, *config.max_time);
    const auto limit = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*config.max_time));
    criteria.add(std::make_shared<MaxTime>(*context.clock, limit));
  }
  if (context.tokenizer != nullptr && !config.stop_strings.empty()) {
    criteria.add(std::make_shared<StopText>(*context.tokenizer, config.stop_strings));
  }
  criteria.merge(context.users);
  return criteria;
}

}  // namespace lockstep::generation
