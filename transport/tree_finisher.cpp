#include "transport/tree_finisher.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/check.h"

namespace lockstep::transport {
namespace {

constexpr size_t kChunk = 1024;        // elements: a handful of accumulators fit the first-level cache
constexpr int64_t kLineElements = 16;  // of a cache line

/// `out` may be `left`.
void add_plain(float* out, const float* left, const float* right, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
}

#if defined(__x86_64__)
/// Explicit vectors: for a plain loop the compiler checks for overlap and uses slow code when `out` is `left`.
[[gnu::target("avx2")]] void add_avx2(float* out, const float* left, const float* right, size_t count) {
  using Vector [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;
  constexpr size_t kWidth = sizeof(Vector) / sizeof(float);
  size_t i = 0;
  for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
    const Vector low = *reinterpret_cast<const Vector*>(left + i) + *reinterpret_cast<const Vector*>(right + i);
    const Vector high =
        *reinterpret_cast<const Vector*>(left + i + kWidth) + *reinterpret_cast<const Vector*>(right + i + kWidth);
    *reinterpret_cast<Vector*>(out + i) = low;
    *reinterpret_cast<Vector*>(out + i + kWidth) = high;
  }
  for (; i < count; ++i) out[i] = left[i] + right[i];
}

/// One cache line at a time. One operand is in another core's cache or in memory, so it is prefetched well ahead, also
/// across page boundaries, where hardware prefetching stops.
[[gnu::target("avx512f")]] void add_avx512(float* out, const float* left, const float* right, size_t count) {
  using Vector [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = float;
  constexpr size_t kWidth = sizeof(Vector) / sizeof(float);
  constexpr size_t kAhead = 32 * kWidth;
  const auto fetch = [&](size_t at) {
    __builtin_prefetch(left + at);
    __builtin_prefetch(right + at);
  };
  for (size_t i = 0; i < kAhead && i < count; i += kWidth) fetch(i);
  size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    if (i + kAhead < count) fetch(i + kAhead);
    *reinterpret_cast<Vector*>(out + i) =
        *reinterpret_cast<const Vector*>(left + i) + *reinterpret_cast<const Vector*>(right + i);
  }
  for (; i < count; ++i) out[i] = left[i] + right[i];
}
#endif

}  // namespace

TreeFinisher::TreeFinisher() : add_(add_plain) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) add_ = add_avx2;
  if (__builtin_cpu_supports("avx512f")) add_ = add_avx512;
#endif
}

std::span<const float*> TreeFinisher::sources(int roots) {
  const auto count = static_cast<size_t>(roots);
  if (source_.size() < count) {
    source_.resize(count);
    value_.resize(count);
    partial_.resize(count * kChunk);
  }
  return std::span(source_).first(count);
}

void TreeFinisher::finish(const TreeFinish& plan, std::span<float> dst) {
  if (plan.steps.empty()) {
    if (!dst.empty()) std::memcpy(dst.data(), source_[plan.result], dst.size_bytes());
    return;
  }
  const TreeFinish::Step last = plan.steps.back();
  LOCKSTEP_CHECK(last.dst == plan.result, last.dst, plan.result);
  // A single addition needs no accumulator, so it is not cut.
  const size_t chunk = plan.steps.size() == 1 ? dst.size() : kChunk;
  for (size_t begin = 0; begin < dst.size(); begin += chunk) {
    const size_t count = std::min(chunk, dst.size() - begin);
    for (int root = 0; root < plan.roots(); ++root) value_[root] = source_[root] + begin;
    for (size_t i = 0; i + 1 < plan.steps.size(); ++i) {
      const TreeFinish::Step step = plan.steps[i];
      float* const out = partial_.data() + step.dst * kChunk;
      add_(out, value_[step.dst], value_[step.src], count);
      value_[step.dst] = out;
    }
    add_(dst.data() + begin, value_[last.dst], value_[last.src], count);
  }
}

Range slice_of(int64_t elements, int ranks, int rank) {
  const int64_t lines = (elements + kLineElements - 1) / kLineElements;
  const auto bound = [&](int64_t r) { return std::min(elements, lines * r / ranks * kLineElements); };
  return {bound(rank), bound(rank + 1)};
}

bool prefers_slices(const TreeFinish& plan, int ranks, int64_t elements, double round_bytes) {
  // Bytes read from peers: all foreign roots, or this rank's slice of them and then the others' slices.
  const double bytes = static_cast<double>(elements) * sizeof(float);
  const double foreign = static_cast<double>(ranks - 1) / ranks;
  const double whole = plan.roots() * foreign * bytes;
  const double sliced = whole / ranks + foreign * bytes;
  return whole - sliced > round_bytes;
}

}  // namespace lockstep::transport
