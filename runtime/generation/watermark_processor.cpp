#include "runtime/generation/watermark_processor.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace lockstep::generation {
namespace {

constexpr int32_t kTableSize = 1'000'003;
constexpr size_t kMostCandidates = 40;

/// torch.randperm on a CPU: Mersenne twister, Fisher-Yates shuffle from the front.
std::vector<int32_t> permutation(int32_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t i = 0; i + 1 < order.size(); ++i) {
    const uint32_t offset = static_cast<uint32_t>(random()) % (static_cast<uint32_t>(order.size()) - i);
    std::swap(order[i], order[i + offset]);
  }
  return order;
}

/// torch keeps the lower 32 bits of a seed, after taking a negative one modulo 2^64 − 1.
uint32_t seed_of(int64_t number) {
  const auto bits = static_cast<uint64_t>(number);
  return static_cast<uint32_t>(number < 0 ? bits - 1 : bits);
}

int64_t wrapping_product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

}  // namespace

WatermarkBias::WatermarkBias(const Watermark& watermark) : watermark_(watermark) {
  if (watermark.scheme == WatermarkScheme::kSelfHash) table_ = permutation(kTableSize, seed_of(watermark.hashing_key));
}

uint32_t WatermarkBias::seed_after(std::span<const int32_t> ids) const {
  const int64_t key = watermark_.hashing_key;
  if (watermark_.scheme == WatermarkScheme::kLeftHash) return seed_of(wrapping_product(key, ids.back()));
  const auto hash = [&](int32_t id) { return int64_t{table_[static_cast<size_t>(id % kTableSize)]} + 1; };
  const std::span<const int32_t> context = ids.last(std::min(ids.size(), static_cast<size_t>(watermark_.context)));
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const int32_t id : context) {
    least = std::min(least, wrapping_product(wrapping_product(key, hash(id)), hash(ids.back())));
  }
  return seed_of(least);
}

std::vector<int32_t> WatermarkBias::green_after(std::span<const int32_t> ids, size_t vocabulary) const {
  std::vector<int32_t> green = permutation(static_cast<int32_t>(vocabulary), seed_after(ids));
  green.resize(static_cast<size_t>(static_cast<double>(vocabulary) * watermark_.green_share));
  return green;
}

/// The likeliest ids that are on the green list of their own context ("selfhash").
std::vector<int32_t> WatermarkBias::self_chosen(std::span<const int32_t> ids, std::span<const float> scores) const {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](int32_t id) { return scores[static_cast<size_t>(id)]; });
  order.resize(std::min(order.size(), kMostCandidates));
  std::vector<int32_t> extended(ids.begin(), ids.end());
  std::vector<int32_t> chosen;
  for (const int32_t id : order) {
    extended.push_back(id);
    const std::vector<int32_t> green = green_after(extended, scores.size());
    if (std::ranges::find(green, id) != green.end()) chosen.push_back(id);
    extended.pop_back();
  }
  return chosen;
}

void WatermarkBias::process(std::span<const int32_t> ids, std::span<float> scores) const {
  if (std::ssize(ids) < watermark_.context) return;
  const bool is_self = watermark_.scheme == WatermarkScheme::kSelfHash;
  const std::vector<int32_t> green = is_self ? self_chosen(ids, scores) : green_after(ids, scores.size());
  for (const int32_t id : green) scores[static_cast<size_t>(id)] += static_cast<float>(watermark_.bias);
}

}  // namespace lockstep::generation
