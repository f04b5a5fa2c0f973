// Two matrix products divided over ranks like an MLP. The first is divided by its output columns, so that no rank needs
// another's result; the second by its input columns, so that one all-reduce finishes it.
//
//              W1 (columns cut)         W2 (rows cut)
//   x ──┬──► rank 0: h[0:a]   ──► roots of leaves 0…  ─┐
//       ├──► rank 1: h[a:b]   ──► roots of leaves …   ─┼─ all_reduce ──► y, the same bits on every rank
//       └──► rank 2: h[b:I]   ──► roots of leaves …n  ─┘
//
// The sum's order depends on the product (a tree over blocks of columns), not on the ranks, so 1, 2, 3 or 5 ranks give
// the same bits.
#include <fmt/format.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "transport/loopback/loopback.h"

namespace lockstep {
namespace {

constexpr int64_t kHidden = 24, kColumns = 88, kBlock = 8, kLeaves = kColumns / kBlock;

/// A number determined by (matrix, row, column).
float element(int matrix, int64_t row, int64_t column) {
  uint32_t x = static_cast<uint32_t>(matrix * 1000003 + row * 4099 + column * 31 + 7);
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return static_cast<float>(x >> 8) / static_cast<float>(1 << 23) - 1.0f;
}

/// Element `column` of h = W1 · x.
float inner(int64_t column) {
  float sum = 0;
  for (int64_t k = 0; k < kHidden; ++k) sum += element(1, column, k) * element(0, 0, k);
  return sum;
}

/// The sum of W2's row `row` times h over the leaves of `node`: left half plus right half, down to one leaf.
float sum_of(Range node, int64_t row, const std::vector<float>& h, int64_t first_column) {
  if (node.size() > 1) {
    const int64_t middle = node.begin + static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(node.size())) / 2);
    return sum_of({node.begin, middle}, row, h, first_column) + sum_of({middle, node.end}, row, h, first_column);
  }
  float sum = 0;
  for (int64_t k = node.begin * kBlock; k < node.end * kBlock; ++k) sum += element(2, row, k) * h[k - first_column];
  return sum;
}

/// The work of one rank: its columns of h, its roots of y, one all-reduce.
std::vector<float> rank_product(device::Communicator& communicator, const BlockSplit& split) {
  const Range leaves = split.range_of(communicator.rank());
  std::vector<float> h;
  for (int64_t c = leaves.begin * kBlock; c < leaves.end * kBlock; ++c) h.push_back(inner(c));

  const std::vector<Range> nodes = split.roots_of(communicator.rank());
  std::vector<float> roots;  // [nodes, kHidden]
  for (const Range& node : nodes) {
    for (int64_t row = 0; row < kHidden; ++row) roots.push_back(sum_of(node, row, h, leaves.begin * kBlock));
  }
  std::vector<float> y(kHidden);
  const device::TreeSum sum(split);
  communicator.all_reduce(sum, roots, y, device::Stream::host()).value();
  return y;
}

/// Computes the product with `split.ranks()` threads; returns every rank's result.
std::vector<std::vector<float>> product(const BlockSplit& split) {
  const SteadyClock clock;
  const AbortFlag abort;
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock};
  const auto group = transport::loopback::make_group(split.ranks());
  std::vector<std::vector<float>> results(split.ranks());
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < split.ranks(); ++rank) {
    ranks.emplace_back([&, rank] {
      const auto communicator = transport::loopback::make_communicator(group, rank, wait);
      results[rank] = rank_product(*communicator, split);
    });
  }
  ranks.clear();  // joins
  return results;
}

void run() {
  const std::vector<float> whole = product({.bounds = {0, kLeaves}}).front();
  const std::vector<BlockSplit> splits = {{{0, 5, kLeaves}}, {{0, 1, 10, kLeaves}}, {{0, 2, 4, 6, 9, kLeaves}}};
  for (const BlockSplit& split : splits) {
    for (const std::vector<float>& y : product(split)) {
      LOCKSTEP_CHECK(std::memcmp(y.data(), whole.data(), sizeof(float) * kHidden) == 0, split.ranks());
    }
    fmt::print("{} ranks, leaves cut at {}: the bits of one rank\n", split.ranks(), split.bounds[1]);
  }
}

}  // namespace
}  // namespace lockstep

int main() try {
  lockstep::run();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
