// Length buckets: for backends that cannot bound attention by the length in use, a set of graphs of several lengths is
// compiled at start, and each step replays the smallest that fits.
//
//   capacity 3000   token buckets    128 256 512 1024 2048 3000     a step's positions lie below one of them
//                   context buckets   64 128 256  512 1024 1500     rows of a prefill step; longer prompts take several
//                                      │   │   │    │    │    │
//                   prefill graphs    64 128 256  512 1024 1500     where a prefill step, too, reads a bucket: rows
//                                    128 256 512 1024 2048 3000     and the positions that these see
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::shards {

/// Powers of two from 128 up to `capacity`, which is the last even where it is none.
std::vector<int64_t> token_buckets(int64_t capacity);

/// Half of each token bucket, at least 1.
std::vector<int64_t> context_buckets(const std::vector<int64_t>& token_buckets);

/// "auto", or a rising list of token buckets such as "128,512,2048"; `capacity` is added where it is larger than the
/// last. Fails with `kInvalidArgument` for anything else, and for a bucket beyond `capacity`.
Result<std::vector<int64_t>> parse_token_buckets(std::string_view text, int64_t capacity);

/// Sizes of a step whose padding costs nothing: `chunk`, three quarters of it, a half, and so on, at least 16 rows.
/// Ascending.
std::vector<int64_t> parts_of_chunk(int64_t chunk);

/// A prefill graph: its rows, and what their positions lie below.
struct PrefillSize {
  int64_t rows = 0;
  int64_t bound = 0;

  friend bool operator==(const PrefillSize&, const PrefillSize&) = default;
};

/// The prefill graphs that read no further than a bucket, rising by rows and then by bound. Each token bucket has one,
/// of as many rows as half of it holds, and each number of rows; the last two have one together, which fits every
/// chunk. Neither list is empty.
std::vector<PrefillSize> prefill_sizes(const std::vector<int64_t>& context_buckets,
                                       const std::vector<int64_t>& token_buckets);

/// The first of `sizes` that has `needed.rows` rows for positions below `needed.bound`; there is one.
size_t smallest_prefill(const std::vector<PrefillSize>& sizes, PrefillSize needed);

/// The first of the rising `buckets` that is at least `length`; the last when there is none, 0 without buckets.
size_t smallest_bucket(const std::vector<int64_t>& buckets, int64_t length);

}  // namespace lockstep::shards
