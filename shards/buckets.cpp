#include "shards/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::shards {
namespace {

constexpr int64_t kSmallest = 128;

Error wrong_list(std::string_view text, std::string_view expected) {
  return {
      ErrorKind::kInvalidArgument,
      fmt::format("[shards] cannot use length buckets: found \"{}\", expected {}; correct --buckets", text, expected)};
}

}  // namespace

std::vector<int64_t> token_buckets(int64_t capacity) {
  std::vector<int64_t> buckets;
  for (int64_t bucket = kSmallest; bucket < capacity; bucket *= 2) buckets.push_back(bucket);
  buckets.push_back(capacity);
  return buckets;
}

std::vector<int64_t> context_buckets(const std::vector<int64_t>& token_buckets) {
  std::vector<int64_t> buckets;
  for (const int64_t bucket : token_buckets) buckets.push_back(std::max<int64_t>(1, bucket / 2));
  buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
  return buckets;
}

std::vector<int64_t> parts_of_chunk(int64_t chunk) {
  constexpr int64_t kLeast = 16;
  std::vector<int64_t> sizes = {chunk};
  for (int64_t whole = chunk; whole / 2 >= kLeast; whole /= 2) {
    sizes.push_back(whole * 3 / 4);
    sizes.push_back(whole / 2);
  }
  std::ranges::reverse(sizes);
  return sizes;
}

Result<std::vector<int64_t>> parse_token_buckets(std::string_view text, int64_t capacity) {
  if (text == "auto") return token_buckets(capacity);
  std::vector<int64_t> buckets;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    int64_t bucket = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), bucket);
    if (error != std::errc() || end != word.data() + word.size() || bucket < 1) {
      return wrong_list(text, "auto, or lengths such as 128,512,2048");
    }
    if (!buckets.empty() && bucket <= buckets.back()) return wrong_list(text, "lengths that rise");
    buckets.push_back(bucket);
  }
  if (buckets.empty()) return wrong_list(text, "auto, or lengths such as 128,512,2048");
  if (buckets.back() > capacity) return wrong_list(text, fmt::format("lengths up to the capacity of {}", capacity));
  if (buckets.back() < capacity) buckets.push_back(capacity);
  return buckets;
}

std::vector<PrefillSize> prefill_sizes(const std::vector<int64_t>& context_buckets,
                                       const std::vector<int64_t>& token_buckets) {
  std::vector<PrefillSize> sizes;
  for (const int64_t bound : token_buckets) {
    const auto above = std::ranges::upper_bound(context_buckets, std::max<int64_t>(1, bound / 2));
    const int64_t rows = above == context_buckets.begin() ? context_buckets.front() : *std::prev(above);
    if (rows <= bound) sizes.push_back({rows, bound});
  }
  for (const int64_t rows : context_buckets) {
    const bool is_there = std::ranges::find(sizes, rows, &PrefillSize::rows) != sizes.end();
    if (!is_there) sizes.push_back({rows, token_buckets[smallest_bucket(token_buckets, 2 * rows)]});
  }
  std::ranges::sort(sizes, {}, [](const PrefillSize& size) { return std::pair(size.rows, size.bound); });
  return sizes;
}

size_t smallest_prefill(const std::vector<PrefillSize>& sizes, PrefillSize needed) {
  const auto found = std::ranges::find_if(
      sizes, [&](const PrefillSize& size) { return size.rows >= needed.rows && size.bound >= needed.bound; });
  LOCKSTEP_CHECK(found != sizes.end(), needed.rows, needed.bound);
  return static_cast<size_t>(found - sizes.begin());
}

size_t smallest_bucket(const std::vector<int64_t>& buckets, int64_t length) {
  if (buckets.empty()) return 0;
  const auto found = std::lower_bound(buckets.begin(), buckets.end() - 1, length);
  return static_cast<size_t>(found - buckets.begin());
}

}  // namespace lockstep::shards
