// Prompt lookup decoding: drafts tokens from an earlier match in the row (Saxena, 2023).
//
//   … the cat sat on the mat . the cat ▮        "the cat" occurred before: draft "sat on the mat …"
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::generation {

struct PromptLookup {
  int32_t tokens = 10;     // maximum number of drafted tokens
  int32_t ngram_size = 2;  // longest run of last ids to search for; shorter ones if it is not found
};

/// The continuation of the first earlier match of the last ids, up to an end token, which is never drafted; empty
/// without a match. The last token of a row with `max_length` ids is not drafted. Equivalent to Hugging Face's
/// PromptLookupCandidateGenerator without processors.
std::vector<int32_t> draft_by_lookup(std::span<const int32_t> ids, const PromptLookup& lookup, int64_t max_length,
                                     std::span<const int32_t> eos);

}  // namespace lockstep::generation
