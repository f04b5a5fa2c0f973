#include "runtime/backends/neuron/lowering/cache.h"

#include <algorithm>

#include "runtime/backends/neuron/lowering/arithmetic.h"

namespace lockstep::neuron {

using hlo::Builder;
using hlo::Direction;
using hlo::Element;
using hlo::Value;

CacheShape cache_of(const NodeView& node, size_t cache) {
  const graph::ValueId id = node.node().operands.at(cache);
  CacheShape shape;
  for (int rank = 0; rank < node.step().ranks(); ++rank) {
    const Shape& dims = node.step().graph(rank).value(id).type.shape;
    shape.slots = dims[0];
    shape.heads = std::max(shape.heads, dims[1]);
    shape.capacity = dims[2];
    shape.head_dim = dims[3];
  }
  shape.is_ring = node.node().has("window");
  shape.pinned = node.integer_or("pinned", 0);
  return shape;
}

Value cache_rows(Builder& b, const CacheShape& cache, Value slot, Value position) {
  Value row = position;
  if (cache.is_ring) {
    const auto pinned = static_cast<double>(cache.pinned);
    const Value turn = b.add(modulo(b, b.add(position, -pinned), cache.ring()), pinned);
    row = cache.pinned == 0 ? turn : b.select(b.compare(Direction::kLt, position, pinned), position, turn);
  }
  const Value index = b.add(b.multiply(row, static_cast<double>(cache.slots)), slot);
  const Value scratch = b.fill_like(index, static_cast<double>(cache.rows() - 1));
  return b.select(b.compare(Direction::kGe, slot, 0.0), index, scratch);
}

/// Ring row r holds the newest position p with p ≡ r (mod n): newest − ((newest − r) mod n).
Value positions_held(Builder& b, const CacheShape& cache, Value newest, int64_t rows) {
  const std::vector<int64_t> dims{b.dims_of(newest)[0], rows};
  const Value row = b.iota({Element::kS32, dims, {}}, 1);
  if (!cache.is_ring) return row;
  const int64_t n = cache.ring();
  const auto pinned = static_cast<double>(cache.pinned);
  const Value last = b.add(along(b, newest, dims, 0), -pinned);
  const Value place = b.add(row, -pinned);
  // Adding whole turns keeps the operand of the modulo non-negative.
  const auto turns = static_cast<double>(n * (1 + (cache.pinned + n - 1) / n));
  const Value age = modulo(b, b.add(b.subtract(last, place), turns), n);
  const Value held = b.subtract(last, age);
  const Value position = b.add(held, pinned);
  const Value known = b.select(b.compare(Direction::kGe, held, 0.0), position, b.fill_like(position, -1.0));
  if (cache.pinned == 0) return known;
  return b.select(b.compare(Direction::kLt, row, pinned), row, known);
}

}  // namespace lockstep::neuron
