#include "runtime/generation/stop_strings.h"

#include <algorithm>
#include <utility>

namespace lockstep::generation {
namespace {

std::vector<size_t> fallbacks(std::string_view text) {
  std::vector<size_t> fallback(text.size(), 0);
  for (size_t i = 1, length = 0; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = fallback[length - 1];
    if (text[i] == text[length]) ++length;
    fallback[i] = length;
  }
  return fallback;
}

}  // namespace

/// Must not be called after a full match.
void StopStrings::Pattern::take(char byte) {
  while (matched > 0 && text[matched] != byte) matched = fallback[matched - 1];
  if (text[matched] == byte) ++matched;
}

StopStrings::StopStrings(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    std::vector<size_t> fallback = fallbacks(stop);
    patterns_.push_back({std::move(stop), std::move(fallback)});
  }
}

StopStrings::Outcome StopStrings::put(std::string_view piece) {
  if (match_) return {.text = {}, .stopped = true};
  for (const char byte : piece) {
    held_ += byte;
    for (size_t p = 0; p < patterns_.size(); ++p) {
      Pattern& pattern = patterns_[p];
      pattern.take(byte);
      const bool is_longest = !match_ || pattern.text.size() > patterns_[*match_].text.size();
      if (pattern.matched == pattern.text.size() && is_longest) match_ = p;
    }
    if (match_) {
      held_.resize(held_.size() - patterns_[*match_].text.size());
      return {.text = std::exchange(held_, {}), .stopped = true};
    }
  }
  size_t undecided = 0;  // bytes at the end that may start a match
  for (const Pattern& pattern : patterns_) undecided = std::max(undecided, pattern.matched);
  std::string shown = held_.substr(0, held_.size() - undecided);
  held_.erase(0, shown.size());
  return {.text = std::move(shown), .stopped = false};
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace lockstep::generation
