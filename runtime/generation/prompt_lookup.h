// Drafts tokens for speculation by looking up in the row itself what followed the last time (Saxena, 2023).
//
//   … the cat sat on the mat . the cat ▮        "the cat" came before: draft "sat on the mat …"
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::generation {

struct PromptLookup {
  int32_t tokens = 10;     // at most so many are drafted
  int32_t ngram_size = 2;  // the longest run of last ids that is looked for; shorter ones when it is not found
};

/// What followed the first place in `ids` that equals their end, up to an end token, which is never drafted; empty when
/// there is none. A row of at most `max_length` ids needs no draft for its last token. As Hugging Face's
/// PromptLookupCandidateGenerator without processors.
std::vector<int32_t> draft_by_lookup(std::span<const int32_t> ids, const PromptLookup& lookup, int64_t max_length,
                                     std::span<const int32_t> eos);

}  // namespace lockstep::generation
