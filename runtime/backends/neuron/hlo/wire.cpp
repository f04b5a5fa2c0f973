// Conversion of modules to protos. The only file that includes protobuf's generated code, which is slow to compile.
#include "runtime/backends/neuron/hlo/wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>

#include "runtime/backends/neuron/hlo/hlo.pb.h"
#include "runtime/core/check.h"

namespace lockstep::neuron::hlo {
namespace {

// Values of OpenXLA's enumerations (xla/xla_data.proto, PrimitiveType; xla/service/hlo.proto, Kind).
constexpr std::array<int, 8> kElementNumbers = {1, 4, 8, 6, 11, 16, 10, 2};  // in the order of `Element`
constexpr int kTupleNumber = 13;
constexpr int kMustAlias = 2;

template <typename Field>
void set_all(const std::vector<int64_t>& values, Field* field) {
  field->Assign(values.begin(), values.end());
}

template <typename Field>
std::vector<int64_t> all_of(const Field& field) {
  return {field.begin(), field.end()};
}

// ---------------------------------------------------------------- writing

void write_shape(const Type& type, wire::Shape* shape) {
  if (!type.parts.empty()) {
    shape->set_element_type(kTupleNumber);
    for (const Type& part : type.parts) write_shape(part, shape->add_tuple_shapes());
    return;
  }
  shape->set_element_type(kElementNumbers[static_cast<size_t>(type.element)]);
  set_all(type.dims, shape->mutable_dimensions());
  auto* order = shape->mutable_layout()->mutable_minor_to_major();  // row-major; scalars have an empty layout
  for (size_t i = type.dims.size(); i-- > 0;) {
    order->Add(static_cast<int64_t>(i));
    shape->add_is_dynamic_dimension(false);
  }
}

template <typename T, typename Field>
void write_elements(const std::vector<std::byte>& bytes, Field* field) {
  for (size_t i = 0; i < bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof value);
    field->Add(value);
  }
}

void write_literal(const Instruction& constant, wire::Literal* literal) {
  write_shape(constant.type, literal->mutable_shape());
  const std::vector<std::byte>& bytes = constant.literal;
  const std::string raw(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (constant.type.element) {
    case Element::kPred: write_elements<bool>(bytes, literal->mutable_preds()); break;
    case Element::kS32: write_elements<int32_t>(bytes, literal->mutable_s32s()); break;
    case Element::kU32: write_elements<uint32_t>(bytes, literal->mutable_u32s()); break;
    case Element::kF32: write_elements<float>(bytes, literal->mutable_f32s()); break;
    case Element::kU8: literal->set_u8s(raw); break;
    case Element::kBF16: literal->set_bf16s(raw); break;
    case Element::kF16: literal->set_f16s(raw); break;
    case Element::kS8: literal->set_s8s(raw); break;
  }
}

void write_indexing(const Instruction& instruction, wire::Instruction* out) {
  const IndexDims& index = instruction.index;
  if (instruction.opcode == Opcode::kGather) {
    auto* numbers = out->mutable_gather_dimension_numbers();
    set_all(index.window, numbers->mutable_offset_dims());
    set_all(index.collapsed, numbers->mutable_collapsed_slice_dims());
    set_all(index.indexed, numbers->mutable_start_index_map());
    numbers->set_index_vector_dim(index.index_vector);
    set_all(index.slice_sizes, out->mutable_gather_slice_sizes());
  } else if (instruction.opcode == Opcode::kScatter) {
    auto* numbers = out->mutable_scatter_dimension_numbers();
    set_all(index.window, numbers->mutable_update_window_dims());
    set_all(index.collapsed, numbers->mutable_inserted_window_dims());
    set_all(index.indexed, numbers->mutable_scatter_dims_to_operand_dims());
    numbers->set_index_vector_dim(index.index_vector);
  } else if (instruction.opcode == Opcode::kDot) {
    auto* numbers = out->mutable_dot_dimension_numbers();
    set_all(instruction.dot.lhs_contracting, numbers->mutable_lhs_contracting_dimensions());
    set_all(instruction.dot.rhs_contracting, numbers->mutable_rhs_contracting_dimensions());
    set_all(instruction.dot.lhs_batch, numbers->mutable_lhs_batch_dimensions());
    set_all(instruction.dot.rhs_batch, numbers->mutable_rhs_batch_dimensions());
  }
}

void write_ranges(const Instruction& instruction, wire::Instruction* out) {
  for (size_t i = 0; i < instruction.start.size(); ++i) {
    if (instruction.opcode == Opcode::kSlice) {
      auto* dimension = out->add_slice_dimensions();
      dimension->set_start(instruction.start[i]);
      dimension->set_limit(instruction.limit[i]);
      dimension->set_stride(1);
    } else {
      auto* dimension = out->mutable_padding_config()->add_dimensions();
      dimension->set_edge_padding_low(instruction.start[i]);
      dimension->set_edge_padding_high(instruction.limit[i]);
    }
  }
}

/// Ids are unique in the whole module: instruction i of a computation that starts at `first` is first + i.
void write_instruction(const Instruction& instruction, int64_t first, int64_t id,
                       const std::vector<int64_t>& computation_ids, wire::Instruction* out) {
  out->set_name(instruction.name);
  out->set_opcode(std::string(to_string(instruction.opcode)));
  write_shape(instruction.type, out->mutable_shape());
  if (instruction.opcode == Opcode::kConstant) write_literal(instruction, out->mutable_literal());
  if (instruction.opcode == Opcode::kParameter) out->set_parameter_number(instruction.number);
  if (instruction.opcode == Opcode::kGetTupleElement) out->set_tuple_index(instruction.number);
  set_all(instruction.dimensions, out->mutable_dimensions());
  set_all(instruction.slice_sizes, out->mutable_dynamic_slice_sizes());
  write_ranges(instruction, out);
  write_indexing(instruction, out);
  out->set_id(id);
  for (const int operand : instruction.operands) out->add_operand_ids(first + operand);
  if (instruction.called >= 0) {
    out->add_called_computation_ids(computation_ids[static_cast<size_t>(instruction.called)]);
  }
  for (const auto& group : instruction.groups) set_all(group, out->add_replica_groups()->mutable_replica_ids());
  out->set_is_stable(instruction.is_stable);
  out->set_comparison_direction(std::string(to_string(instruction.direction)));
}

void write_program_shape(const Computation& computation, wire::ProgramShape* shape) {
  for (const Instruction& instruction : computation.instructions) {
    if (instruction.opcode != Opcode::kParameter) continue;
    write_shape(instruction.type, shape->add_parameters());
    shape->add_parameter_names(instruction.name);
  }
  write_shape(computation.instructions[static_cast<size_t>(computation.root)].type, shape->mutable_result());
}

// ---------------------------------------------------------------- reading

Error invalid(const std::string& message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/neuron] cannot read an HLO module: " + message};
}

/// Sizes must not be negative, and their product must fit an index.
Result<void> check_dims(const std::vector<int64_t>& dims) {
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || (dim > 0 && elements > (int64_t{1} << 48) / dim)) {
      return invalid(fmt::format("found dimensions {}, expected sizes", fmt::join(dims, ",")));
    }
    elements *= std::max<int64_t>(dim, 1);
  }
  return ok();
}

Result<Type> read_shape(const wire::Shape& shape) {
  Type type;
  if (shape.element_type() == kTupleNumber) {
    for (const wire::Shape& part : shape.tuple_shapes()) {
      LOCKSTEP_TRY(type.parts.emplace_back(), read_shape(part));
    }
    return type;
  }
  for (size_t i = 0; i < kElementNumbers.size(); ++i) {
    if (kElementNumbers[i] != shape.element_type()) continue;
    type.element = static_cast<Element>(i);
    type.dims = all_of(shape.dimensions());
    LOCKSTEP_TRY_VOID(check_dims(type.dims));
    return type;
  }
  return invalid(fmt::format("found element type {}, expected one that this backend writes", shape.element_type()));
}

template <typename T, typename Field>
std::vector<std::byte> element_bytes(const Field& field) {
  std::vector<T> values(field.begin(), field.end());
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

std::vector<std::byte> read_literal(const wire::Literal& literal, Element element) {
  switch (element) {
    case Element::kPred: return element_bytes<uint8_t>(literal.preds());
    case Element::kS32: return element_bytes<int32_t>(literal.s32s());
    case Element::kU32: return element_bytes<uint32_t>(literal.u32s());
    case Element::kF32: return element_bytes<float>(literal.f32s());
    case Element::kU8: return element_bytes<char>(literal.u8s());
    case Element::kBF16: return element_bytes<char>(literal.bf16s());
    case Element::kF16: return element_bytes<char>(literal.f16s());
    case Element::kS8: return element_bytes<char>(literal.s8s());
  }
  return {};
}

Result<void> read_ranges(const wire::Instruction& in, Instruction& instruction) {
  for (const auto& dimension : in.slice_dimensions()) {
    if (dimension.stride() != 1) {
      return invalid(fmt::format("{}: found a stride of {}, expected 1", in.name(), dimension.stride()));
    }
    instruction.start.push_back(dimension.start());
    instruction.limit.push_back(dimension.limit());
  }
  for (const auto& dimension : in.padding_config().dimensions()) {
    if (dimension.interior_padding() != 0) return invalid(in.name() + ": found interior padding, expected none");
    instruction.start.push_back(dimension.edge_padding_low());
    instruction.limit.push_back(dimension.edge_padding_high());
  }
  return ok();
}

void read_indexing(const wire::Instruction& in, Instruction& instruction) {
  if (in.has_gather_dimension_numbers()) {
    const auto& numbers = in.gather_dimension_numbers();
    instruction.index = {all_of(numbers.offset_dims()), all_of(numbers.collapsed_slice_dims()),
                         all_of(numbers.start_index_map()), numbers.index_vector_dim(),
                         all_of(in.gather_slice_sizes())};
  }
  if (in.has_scatter_dimension_numbers()) {
    const auto& numbers = in.scatter_dimension_numbers();
    instruction.index = {all_of(numbers.update_window_dims()),
                         all_of(numbers.inserted_window_dims()),
                         all_of(numbers.scatter_dims_to_operand_dims()),
                         numbers.index_vector_dim(),
                         {}};
  }
  if (in.has_dot_dimension_numbers()) {
    const auto& numbers = in.dot_dimension_numbers();
    instruction.dot = {all_of(numbers.lhs_contracting_dimensions()), all_of(numbers.rhs_contracting_dimensions()),
                       all_of(numbers.lhs_batch_dimensions()), all_of(numbers.rhs_batch_dimensions())};
  }
}

Direction read_direction(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Direction::kGe); ++i) {
    if (to_string(static_cast<Direction>(i)) == name) return static_cast<Direction>(i);
  }
  return Direction::kNone;
}

/// The indices of the instructions and computations read so far, by id.
struct Places {
  std::map<int64_t, int> instructions;  // of this computation
  std::map<int64_t, int> computations;
};

Result<Instruction> read_instruction(const wire::Instruction& in, const Places& places) {
  Instruction instruction{.name = in.name()};
  const auto opcode = opcode_from_name(in.opcode());
  if (!opcode) return invalid(fmt::format("{}: found opcode {}, expected one of ours", in.name(), in.opcode()));
  instruction.opcode = *opcode;
  LOCKSTEP_TRY(instruction.type, read_shape(in.shape()));
  instruction.number = instruction.opcode == Opcode::kParameter ? in.parameter_number() : in.tuple_index();
  instruction.dimensions = all_of(in.dimensions());
  instruction.slice_sizes = all_of(in.dynamic_slice_sizes());
  instruction.direction = read_direction(in.comparison_direction());
  instruction.is_stable = in.is_stable();
  read_indexing(in, instruction);
  LOCKSTEP_TRY_VOID(read_ranges(in, instruction));
  for (const auto& group : in.replica_groups()) instruction.groups.push_back(all_of(group.replica_ids()));
  for (const int64_t id : in.operand_ids()) {
    const auto found = places.instructions.find(id);
    if (found == places.instructions.end()) return invalid(in.name() + ": an operand comes after its user");
    instruction.operands.push_back(found->second);
  }
  for (const int64_t id : in.called_computation_ids()) {
    const auto found = places.computations.find(id);
    if (found == places.computations.end()) return invalid(in.name() + ": it calls a computation that comes later");
    instruction.called = found->second;
  }
  if (instruction.opcode == Opcode::kConstant) {
    instruction.literal = read_literal(in.literal(), instruction.type.element);
    const auto expected = static_cast<size_t>(instruction.type.elements()) * size_of(instruction.type.element);
    if (instruction.literal.size() != expected) return invalid(in.name() + ": its literal has another size");
  }
  return instruction;
}

Result<Computation> read_computation(const wire::Computation& in, Places& places) {
  Computation computation{.name = in.name(), .instructions = {}, .root = -1};
  places.instructions.clear();
  for (const wire::Instruction& instruction : in.instructions()) {
    const auto index = static_cast<int>(computation.instructions.size());
    LOCKSTEP_TRY(computation.instructions.emplace_back(), read_instruction(instruction, places));
    if (!places.instructions.emplace(instruction.id(), index).second) {
      return invalid(instruction.name() + ": its id is not its own");
    }
    if (instruction.id() == in.root_id()) computation.root = index;
  }
  if (computation.root < 0) return invalid(in.name() + ": it has no root");
  return computation;
}

}  // namespace

std::vector<std::byte> to_bytes(const Module& module) {
  wire::Module out;
  out.set_name(module.name);
  out.set_id(1);
  std::vector<int64_t> computation_ids;
  int64_t next_id = 1;
  for (const Computation& computation : module.computations) {
    wire::Computation* written = out.add_computations();
    written->set_name(computation.name);
    written->set_id(next_id++);
    computation_ids.push_back(written->id());
    const int64_t first = next_id;
    for (const Instruction& instruction : computation.instructions) {
      write_instruction(instruction, first, next_id++, computation_ids, written->add_instructions());
    }
    written->set_root_id(first + computation.root);
    write_program_shape(computation, written->mutable_program_shape());
  }
  out.set_entry_computation_name(module.entry().name);
  out.set_entry_computation_id(computation_ids.back());
  write_program_shape(module.entry(), out.mutable_host_program_shape());
  for (const Alias& alias : module.aliases) {
    auto* entry = out.mutable_input_output_alias()->add_entries();
    entry->add_output_shape_index(alias.output);
    entry->set_parameter_number(alias.parameter);
    entry->set_kind(kMustAlias);
  }
  const std::string bytes = out.SerializeAsString();
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

Result<Module> from_bytes(std::span<const std::byte> bytes) {
  wire::Module in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid(fmt::format("found {} bytes that are not an HloModuleProto", bytes.size()));
  }
  Module module{.name = in.name()};
  Places places;
  int64_t last = -1;
  for (const wire::Computation& computation : in.computations()) {
    LOCKSTEP_TRY(module.computations.emplace_back(), read_computation(computation, places));
    places.computations.emplace(computation.id(), static_cast<int>(module.computations.size()) - 1);
    last = computation.id();
  }
  if (module.computations.empty() || in.entry_computation_id() != last) {
    return invalid("expected the entry computation to be the last one");
  }
  for (const auto& entry : in.input_output_alias().entries()) {
    if (entry.output_shape_index_size() != 1) return invalid("an alias does not name one output");
    module.aliases.push_back(
        {static_cast<int>(entry.output_shape_index(0)), static_cast<int>(entry.parameter_number())});
  }
  return module;
}

}  // namespace lockstep::neuron::hlo
