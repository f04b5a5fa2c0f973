// Builds the entry computation of a module, instruction by instruction. Result types are inferred; unsuitable operands
// are failed checks, because only this backend's lowering calls it. Equal instructions are created once. Reducers and
// comparators become separate computations, one of each kind.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/backends/neuron/hlo/module.h"
#include "runtime/core/block_tree.h"

namespace lockstep::neuron::hlo {

/// An instruction of the entry computation.
struct Value {
  int index = -1;
  friend bool operator==(const Value&, const Value&) = default;
};

class Builder {
 public:
  explicit Builder(std::string module_name);

  // By value, because instructions move when more are added.
  Type type_of(Value value) const { return at(value).type; }
  std::vector<int64_t> dims_of(Value value) const { return at(value).type.dims; }
  Element element_of(Value value) const { return at(value).type.element; }

  /// Parameters are numbered in the order of creation.
  Value parameter(std::string name, Type type);

  Value constant(float value);
  Value constant(int32_t value);
  Value constant(uint32_t value);
  Value constant(bool value);
  Value constants(const std::vector<float>& values);
  Value constants(const std::vector<int32_t>& values);
  /// An array filled with `value`, with the shape and element type of `like`.
  Value fill_like(Value like, double value);
  /// 0, 1, 2 … along `dimension`.
  Value iota(Type type, int64_t dimension);

  /// Dimension i of `value` becomes dimension `dimensions[i]` of `dims`.
  Value broadcast(Value value, std::vector<int64_t> dims, std::vector<int64_t> dimensions);
  Value reshape(Value value, std::vector<int64_t> dims);
  Value transpose(Value value, std::vector<int64_t> permutation);
  /// `value` itself if it already has that type.
  Value convert(Value value, Element element);
  Value copy(Value value);

  Value binary(Opcode opcode, Value lhs, Value rhs);
  Value unary(Opcode opcode, Value value);
  Value add(Value x, Value y) { return binary(Opcode::kAdd, x, y); }
  Value subtract(Value x, Value y) { return binary(Opcode::kSubtract, x, y); }
  Value multiply(Value x, Value y) { return binary(Opcode::kMultiply, x, y); }
  Value divide(Value x, Value y) { return binary(Opcode::kDivide, x, y); }
  Value maximum(Value x, Value y) { return binary(Opcode::kMaximum, x, y); }
  Value minimum(Value x, Value y) { return binary(Opcode::kMinimum, x, y); }
  Value logical_and(Value x, Value y) { return binary(Opcode::kAnd, x, y); }
  Value logical_or(Value x, Value y) { return binary(Opcode::kOr, x, y); }
  Value logical_not(Value x) { return unary(Opcode::kNot, x); }
  /// With one number for all elements.
  Value add(Value x, double y) { return add(x, fill_like(x, y)); }
  Value multiply(Value x, double y) { return multiply(x, fill_like(x, y)); }

  Value compare(Direction direction, Value x, Value y);
  Value compare(Direction direction, Value x, double y) { return compare(direction, x, fill_like(x, y)); }
  Value select(Value condition, Value when_true, Value when_false);

  Value slice(Value value, std::vector<int64_t> start, std::vector<int64_t> limit);
  /// `range` of one dimension, all of the others.
  Value slice_dimension(Value value, int64_t dimension, Range range);
  /// One scalar s32 start per dimension; XLA moves a slice back inside the operand.
  Value dynamic_slice(Value value, const std::vector<Value>& start, std::vector<int64_t> sizes);
  /// `low` and `high` elements of `with` (a scalar) around each dimension.
  Value pad(Value value, Value with, std::vector<int64_t> low, std::vector<int64_t> high);
  Value concatenate(const std::vector<Value>& values, int64_t dimension);

  Value dot(Value lhs, Value rhs, DotDims dims, Element result);
  /// Sums over `dimensions`. Floats only, because integer reductions lose bits on the device.
  Value reduce_add(Value value, std::vector<int64_t> dimensions);
  Value reduce_max(Value value, std::vector<int64_t> dimensions);
  Value reduce_min(Value value, std::vector<int64_t> dimensions);

  /// table [N, …], s32 rows [R] → [R, …]. Rows must be in range, because the device checks them.
  Value take_rows(Value table, Value rows);
  /// The same along another dimension of `table`.
  Value take(Value table, Value indices, int64_t dimension);
  /// table [N, …] with `updates` [R, …] written to its s32 rows [R]. Rows must be in range.
  Value put_rows(Value table, Value rows, Value updates);
  /// table [N, M] with `updates` [R] written to the elements s32 [R, 2]. They must be in range.
  Value put_elements(Value table, Value elements, Value updates);

  /// The indices passed to `take…` and `put…`, and the size of each indexed dimension.
  struct Indexing {
    Value indices;
    std::vector<int64_t> limits;
  };
  const std::vector<Indexing>& indexings() const { return indexings_; }

  /// Sorts rows of `keys` [R, N] (f32) in ascending order, and `companions` with them; the sort is stable.
  struct Sorted {
    Value keys, companions;
  };
  Sorted sort_rows(Value keys, Value companions);

  /// The sum over the ranks of one group of all `ranks`.
  Value all_reduce(Value value, int ranks);
  /// The ranks' values, concatenated along `dimension`.
  Value all_gather(Value value, int64_t dimension, int ranks);

  /// Ends the module. Its root is a tuple of `outputs`; an output that is a parameter is copied. Unused parameters are
  /// dropped and the others renumbered; `kept` receives their old numbers. The builder is empty afterwards.
  struct Finished {
    Module module;
    std::vector<int64_t> kept;
  };
  Finished finish(std::vector<Value> outputs) &&;

 private:
  enum class Reducer { kAddF32, kMaxF32, kMinF32, kAssign, kLessThan };

  const Instruction& at(Value value) const { return entry_.at(static_cast<size_t>(value.index)); }
  Value push(Instruction instruction);
  Value literal(Type type, const void* bytes, size_t size);
  Value reduce(Value value, std::vector<int64_t> dimensions, Opcode opcode, float initial);
  /// The computation that combines two elements with `opcode`.
  int combiner(Opcode opcode, Element element);
  /// The computation that returns the second of two elements.
  int replacement(Element element);
  /// The comparator of `sort_rows`.
  int ascending(Element companion);
  int add_computation(std::string name, std::vector<Type> parameters, Instruction result);

  std::string name_;
  std::vector<Instruction> entry_;
  std::vector<Computation> called_;
  std::map<std::string, int> called_by_name_;
  std::unordered_multimap<uint64_t, int> seen_;  // instructions by fingerprint
  std::vector<Indexing> indexings_;
  int64_t parameters_ = 0;
};

}  // namespace lockstep::neuron::hlo
