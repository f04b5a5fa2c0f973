#include "runtime/generation/prompt_lookup.h"

#include <algorithm>

namespace lockstep::generation {

std::vector<int32_t> draft_by_lookup(std::span<const int32_t> ids, const PromptLookup& lookup, int64_t max_length,
                                     std::span<const int32_t> eos) {
  if (std::ssize(ids) + 1 >= max_length || ids.empty()) return {};
  const auto longest = std::min(static_cast<size_t>(lookup.ngram_size), ids.size() - 1);
  for (size_t size = longest; size > 0; --size) {
    // The last occurrence is the end itself, without continuation.
    const auto found = std::search(ids.begin(), ids.end() - 1, ids.end() - static_cast<ptrdiff_t>(size), ids.end());
    if (found == ids.end() - 1) continue;
    const auto first = found + static_cast<ptrdiff_t>(size);
    const auto last = first + std::min<ptrdiff_t>(lookup.tokens, ids.end() - first);
    return {first, std::find_first_of(first, last, eos.begin(), eos.end())};
  }
  return {};
}

}  // namespace lockstep::generation
