// The merges that a vocabulary with scores implies. Private to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::gguf {

using TokenIds = std::unordered_map<std::string_view, int64_t>;

/// All ways to put a token together from two others, the best first: by the score of the whole, then the longest left
/// part. `scores` are those of the tokens by id. Both parts are views of `tokens`.
std::vector<std::pair<std::string_view, std::string_view>> implied_merges(const std::vector<std::string>& tokens,
                                                                          const std::vector<double>& scores,
                                                                          const TokenIds& ids);

}  // namespace lockstep::gguf
