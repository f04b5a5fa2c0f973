#include "runtime/gguf/sentence_merges.h"

#include <algorithm>

namespace lockstep::gguf {
namespace {

struct Merge {
  std::string_view left, right;
  double score = 0.0;
  int64_t left_length = 0;  // characters
  int64_t right_length = 0;
  int64_t left_id = 0;
  int64_t right_id = 0;
};

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; }

int64_t length_of(std::string_view text) { return std::ranges::count_if(text, begins_character); }

/// The ways to cut `whole`, by the ids of the parts.
void add_cuts(std::string_view whole, double score, const TokenIds& ids, std::vector<Merge>& merges) {
  const auto first = static_cast<std::ptrdiff_t>(merges.size());
  int64_t characters = 1;
  const int64_t all = length_of(whole);
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    if (!begins_character(whole[cut])) continue;
    const std::string_view left = whole.substr(0, cut), right = whole.substr(cut);
    const auto left_id = ids.find(left);
    const auto right_id = left_id == ids.end() ? ids.end() : ids.find(right);
    if (right_id != ids.end()) {
      merges.push_back({left, right, score, characters, all - characters, left_id->second, right_id->second});
    }
    ++characters;
  }
  std::sort(merges.begin() + first, merges.end(), [](const Merge& a, const Merge& b) {
    return std::pair(a.left_id, a.right_id) < std::pair(b.left_id, b.right_id);
  });
}

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> implied_merges(const std::vector<std::string>& tokens,
                                                                          const std::vector<double>& scores,
                                                                          const TokenIds& ids) {
  std::vector<Merge> merges;
  for (size_t id = 0; id < tokens.size(); ++id) add_cuts(tokens[id], scores[id], ids, merges);
  std::ranges::stable_sort(merges, [](const Merge& a, const Merge& b) {
    if (a.score != b.score) return a.score > b.score;
    return std::pair(a.left_length, a.right_length) > std::pair(b.left_length, b.right_length);
  });
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  pairs.reserve(merges.size());
  for (const Merge& merge : merges) pairs.emplace_back(merge.left, merge.right);
  return pairs;
}

}  // namespace lockstep::gguf
