#include "runtime/text/split_behavior.h"

#include <algorithm>

namespace lockstep::text {
namespace {

struct Part {
  Span span;
  bool is_delimiter = false;
};

std::vector<Part> all_parts(const std::vector<Span>& matches, size_t length, Delimiters delimiters) {
  const bool match_is_delimiter = delimiters == Delimiters::kMatches;
  std::vector<Part> parts;
  size_t end = 0;
  for (const Span& match : matches) {
    if (match.begin > end) parts.push_back({{end, match.begin}, !match_is_delimiter});
    parts.push_back({match, match_is_delimiter});
    end = match.end;
  }
  if (end < length) parts.push_back({{end, length}, !match_is_delimiter});
  return parts;
}

/// Joins a part to the previous one where `belongs(part, whether the previous part is a delimiter)`.
template <typename Belongs>
std::vector<Span> join(const std::vector<Part>& parts, Belongs belongs) {
  std::vector<Span> spans;
  bool after_delimiter = false;
  for (const Part& part : parts) {
    if (!spans.empty() && belongs(part, after_delimiter)) {
      spans.back() = {std::min(spans.back().begin, part.span.begin), std::max(spans.back().end, part.span.end)};
    } else {
      spans.push_back(part.span);
    }
    after_delimiter = part.is_delimiter;
  }
  return spans;
}

}  // namespace

Result<SplitBehavior> parse_split_behavior(const JsonField& field) {
  LOCKSTEP_TRY(const std::string name, field.string());
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return field.unsupported(fmt::format("the behavior \"{}\"", name),
                           "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

std::vector<Span> split_at(const std::vector<Span>& matches, size_t length, SplitBehavior behavior,
                           Delimiters delimiters) {
  std::vector<Part> parts = all_parts(matches, length, delimiters);
  std::vector<Span> spans;
  switch (behavior) {
    case SplitBehavior::kRemoved:
      std::erase_if(parts, [](const Part& part) { return part.is_delimiter; });
      [[fallthrough]];
    case SplitBehavior::kIsolated: spans = join(parts, [](const Part&, bool) { return false; }); break;
    case SplitBehavior::kMergedWithPrevious:
      spans = join(parts, [](const Part& part, bool after_delimiter) { return part.is_delimiter && !after_delimiter; });
      break;
    case SplitBehavior::kMergedWithNext:  // the same in reverse order
      std::reverse(parts.begin(), parts.end());
      spans = join(parts, [](const Part& part, bool after_delimiter) { return part.is_delimiter && !after_delimiter; });
      std::reverse(spans.begin(), spans.end());
      break;
    case SplitBehavior::kContiguous:
      spans = join(parts, [](const Part& part, bool after_delimiter) { return part.is_delimiter == after_delimiter; });
      break;
  }
  std::erase_if(spans, [](const Span& span) { return span.begin == span.end; });
  return spans;
}

}  // namespace lockstep::text
