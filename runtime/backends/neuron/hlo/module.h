// An HLO module as a value: made by the lowering, printed, written as a proto, and interpreted by a test's stand-in for
// the device. It covers only the part of HLO that this backend emits: array shapes, static sizes, the opcodes of
// `Opcode`. Semantics are those of OpenXLA (openxla.org/xla/operation_semantics).
//
//   Module ── computations (callees first, the entry last) ── instructions (operands first)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/dtype.h"

namespace lockstep::neuron::hlo {

/// Element types: the subset that models need.
enum class Element : uint8_t { kPred, kS32, kU32, kU8, kF32, kBF16, kF16, kS8 };

/// "pred", "s32", "u32", "u8", "f32", "bf16", "f16", "s8".
std::string_view to_string(Element element);
size_t size_of(Element element);
bool is_float(Element element);
/// The element type of a graph's type: i32 becomes s32.
Element element_of(DType dtype);

/// An array or, if `parts` is not empty, a tuple of arrays.
struct Type {
  Element element = Element::kF32;
  std::vector<int64_t> dims;
  std::vector<Type> parts;

  int64_t elements() const;
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  friend bool operator==(const Type&, const Type&) = default;
};

/// "bf16[4,576]"; "(f32[4], s32[4])" for a tuple.
std::string to_string(const Type& type);

/// Only opcodes in use by AWS's own stacks (README.md has the list and its source).
enum class Opcode : uint8_t {
  kParameter,
  kConstant,
  kBroadcast,
  kReshape,
  kTranspose,
  kConvert,
  kCopy,
  kIota,
  kDot,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMaximum,
  kMinimum,
  kAnd,
  kOr,
  kNot,
  kAbs,
  kFloor,
  kExponential,
  kTanh,
  kLog,
  kLogistic,
  kSqrt,
  kRsqrt,
  kSine,
  kCosine,
  kCompare,
  kSelect,
  kReduce,
  kSlice,
  kDynamicSlice,
  kPad,
  kConcatenate,
  kGather,
  kScatter,
  kSort,
  kTuple,
  kGetTupleElement,
  kAllReduce,
  kAllGather,
};
inline constexpr size_t kOpcodes = static_cast<size_t>(Opcode::kAllGather) + 1;

/// The proto's spelling: "all-reduce".
std::string_view to_string(Opcode opcode);
std::optional<Opcode> opcode_from_name(std::string_view name);

enum class Direction : uint8_t { kNone, kEq, kNe, kLt, kLe, kGt, kGe };
/// "EQ" …; empty for none.
std::string_view to_string(Direction direction);

/// The dimensions of a dot's operands. The result: batch, then the rest of lhs, then the rest of rhs.
struct DotDims {
  std::vector<int64_t> lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  friend bool operator==(const DotDims&, const DotDims&) = default;
};

/// The dimensions addressed by a gather or scatter. The index vector is the last dimension of the indices; if
/// `index_vector` equals their rank, each index is a vector of length one.
struct IndexDims {
  std::vector<int64_t> window;     // of the result (gather) or the updates (scatter): positions inside the slice
  std::vector<int64_t> collapsed;  // of the operand: dimensions of slice size one, dropped from the result
  std::vector<int64_t> indexed;    // of the operand: addressed by the parts of the index vector
  int64_t index_vector = 0;
  std::vector<int64_t> slice_sizes;  // gather only
  friend bool operator==(const IndexDims&, const IndexDims&) = default;
};

/// One instruction. Fields that an opcode does not use are empty.
struct Instruction {
  std::string name;  // unique in the module
  Opcode opcode = Opcode::kAdd;
  Type type;
  std::vector<int> operands;          // indices into the computation, all lower than this one's
  std::vector<int64_t> dimensions;    // broadcast, transpose, reduce, concatenate, iota, sort, all-gather
  std::vector<int64_t> start, limit;  // slice; pad: low and high
  std::vector<int64_t> slice_sizes;   // dynamic-slice
  DotDims dot;
  IndexDims index;
  Direction direction = Direction::kNone;    // compare
  int called = -1;                           // computation of reduce, scatter, sort, all-reduce
  int64_t number = 0;                        // parameter: its number; get-tuple-element: the index
  bool is_stable = false;                    // sort
  std::vector<std::vector<int64_t>> groups;  // collectives: ranks
  std::vector<std::byte> literal;            // constant: row-major elements

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

struct Computation {
  std::string name;
  std::vector<Instruction> instructions;
  int root = 0;

  friend bool operator==(const Computation&, const Computation&) = default;
};

/// Output `output` of the entry's tuple shares memory with parameter `parameter` (must-alias), for state on the device.
struct Alias {
  int output = 0;
  int parameter = 0;
  friend bool operator==(const Alias&, const Alias&) = default;
};

struct Module {
  std::string name;
  std::vector<Computation> computations;
  std::vector<Alias> aliases;

  const Computation& entry() const { return computations.back(); }
  friend bool operator==(const Module&, const Module&) = default;
};

/// The entry's parameter instructions, by number.
std::vector<const Instruction*> parameters_of(const Module& module);

/// HLO text with one instruction per line, without layouts (all are row-major). XLA's parser accepts it.
std::string to_text(const Module& module);

}  // namespace lockstep::neuron::hlo
