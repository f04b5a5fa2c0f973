#include "runtime/backends/reference/store.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "runtime/graph/coded_weights.h"

namespace lockstep::reference {
namespace {

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/reference] " + std::move(message)};
}

Result<void> check_range(std::string_view name, const Tensor& tensor, int64_t offset, size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  if (offset >= 0 && size <= tensor.type.bytes() && offset <= tensor.type.bytes() - size) return ok();
  return invalid(fmt::format("cannot access state {}: found bytes {} to {}, expected a range inside its {} bytes", name,
                             offset, offset + size, tensor.type.bytes()));
}

/// Quantises the elements of a matrix and decodes them again.
void round_to_codes(const WeightFormat& format, const ColumnGroups& groups, const Tensor& matrix) {
  std::vector<uint8_t> codes(static_cast<size_t>(groups.columns));
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    for (int64_t group = 0; group < groups.count(); ++group) {
      const Range own = groups.of(group);
      float* const values = matrix.floats() + row * groups.columns + own.begin;
      const GroupScale made = quantise_group(format, values, own.size(), codes.data());
      for (int64_t k = 0; k < own.size(); ++k) {
        values[k] = decode(format, codes[static_cast<size_t>(k)], made.scale, made.offset);
      }
    }
  }
}

}  // namespace

Result<Pages> Pages::reserve(int64_t bytes, std::string_view purpose) {
  if (bytes == 0) return Pages(nullptr, 0);
  void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data != MAP_FAILED) return Pages(static_cast<std::byte*>(data), bytes);
  return Error{ErrorKind::kResourceExhausted,
               fmt::format("[runtime/backends/reference] cannot reserve {} for {}: {}; use a smaller capacity or fewer "
                           "slots",
                           to_string(Bytes(bytes)), purpose, std::generic_category().message(errno))};
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

int64_t Pages::resident() const {
  const int64_t page = sysconf(_SC_PAGESIZE);
  std::vector<unsigned char> present(static_cast<size_t>((bytes_ + page - 1) / page));
  if (present.empty() || mincore(data_, static_cast<size_t>(bytes_), present.data()) != 0) return 0;
  const auto pages = std::count_if(present.begin(), present.end(), [](unsigned char p) { return (p & 1) != 0; });
  return std::min(bytes_, pages * page);
}

Result<std::unique_ptr<Store>> Store::make(std::span<const device::StepGraph> steps) {
  std::unique_ptr<Store> store(new Store);
  for (const device::StepGraph& step : steps) LOCKSTEP_TRY_VOID(store->add_graph(step.own));
  return store;
}

Result<void> Store::add_graph(const graph::Graph& graph) {
  for (const graph::Value& value : graph.values) {
    if (value.kind == graph::ValueKind::kWeight) LOCKSTEP_TRY_VOID(add_entry(value, weights_, weight_index_));
    if (value.kind == graph::ValueKind::kState) LOCKSTEP_TRY_VOID(add_entry(value, states_, state_index_));
  }
  for (const graph::Node& node : graph.nodes) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const graph::Value& value = graph.value(node.operands[i]);
      if (!value.format) continue;
      Entry& weight = weights_[weight_index_.find(value.name)->second];
      weight.format = value.format;
      weight.groups = graph::column_groups(graph, node, i);
    }
    for (const graph::ValueId state : graph::sequence_states(node)) {
      const auto found = state_index_.find(graph.value(state).name);
      if (found == state_index_.end()) continue;
      (graph::is_recurrence(node.op) ? states_[found->second].is_carried : states_[found->second].is_cache) = true;
    }
  }
  return ok();
}

Result<void> Store::add_entry(const graph::Value& value, std::vector<Entry>& entries, Index& index) {
  if (const auto found = index.find(value.name); found != index.end()) {
    const TensorType& known = entries[found->second].tensor.type;
    if (known == value.type) return ok();
    return invalid(fmt::format("two graphs disagree about {}: found {}, expected {} as in the first graph", value.name,
                               to_string(value.type), to_string(known)));
  }
  const bool is_weight = value.kind == graph::ValueKind::kWeight;
  LOCKSTEP_TRY(Pages pages, Pages::reserve(is_weight ? held_bytes(value.type) : value.type.bytes(), value.name));
  const DType held = is_weight ? held_type(value.type.dtype) : value.type.dtype;
  const Tensor tensor{value.type, held, pages.data()};
  index.emplace(value.name, entries.size());
  entries.push_back({value.name, tensor, std::move(pages)});
  return ok();
}

Result<void> Store::set_weight(std::string_view name, std::span<const std::byte> bytes) {
  const auto found = weight_index_.find(name);
  if (found == weight_index_.end()) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[runtime/backends/reference] cannot set weight {}: no graph of this store has it", name)};
  }
  Entry& weight = weights_[found->second];
  const TensorType& type = weight.tensor.type;
  if (static_cast<int64_t>(bytes.size()) != type.bytes()) {
    return invalid(fmt::format("cannot set weight {}: found {} bytes, expected {} for {}", name, bytes.size(),
                               type.bytes(), to_string(type)));
  }
  if (is_float(type.dtype)) {
    convert_elements(bytes.data(), type.dtype, weight.tensor.memory, DType::kFloat32,
                     static_cast<size_t>(weight.tensor.elements()));
  } else if (!bytes.empty()) {
    std::memcpy(weight.tensor.memory, bytes.data(), bytes.size());
  }
  if (weight.format) round_to_codes(*weight.format, weight.groups, weight.tensor);
  weight.has_contents = true;
  return ok();
}

Result<void> Store::load(const graph::Graph& graph, const device::WeightReader& reader) {
  std::vector<std::byte> contents;
  for (const graph::ValueId id : graph.values_of(graph::ValueKind::kWeight)) {
    const graph::Value& value = graph.value(id);
    const auto found = weight_index_.find(value.name);
    if (found != weight_index_.end() && weights_[found->second].format) {
      LOCKSTEP_TRY_VOID(read_coded(value, weights_[found->second], reader));
      continue;
    }
    contents.resize(static_cast<size_t>(value.type.bytes()));
    LOCKSTEP_TRY_VOID(reader.read(value, device::rows_of(value), contents));
    LOCKSTEP_TRY_VOID(set_weight(value.name, contents));
  }
  return ok();
}

Result<void> Store::read_coded(const graph::Value& value, Entry& weight, const device::WeightReader& reader) const {
  const int64_t columns = weight.tensor.columns(), at_once = reader.rows_at_once(value);
  const Range all = device::rows_of(value);
  for (int64_t begin = all.begin; begin < all.end; begin += at_once) {
    const Range rows{begin, std::min(begin + at_once, all.end)};
    std::vector<uint8_t> codes(static_cast<size_t>(rows.size() * columns));
    std::vector<float> scales(static_cast<size_t>(rows.size() * weight.groups.count()));
    std::vector<float> offsets(weight.format->offset == GroupOffset::kNone ? 0 : scales.size());
    LOCKSTEP_TRY_VOID(
        reader.read_codes(value, weight.groups, rows, {std::span(codes), std::span(scales), std::span(offsets)}));
    float* const dst = weight.tensor.floats() + begin * columns;
    for (int64_t row = 0; row < rows.size(); ++row) {
      for (int64_t group = 0; group < weight.groups.count(); ++group) {
        const auto place = static_cast<size_t>(row * weight.groups.count() + group);
        const Range own = weight.groups.of(group);
        for (int64_t k = row * columns + own.begin; k < row * columns + own.end; ++k) {
          dst[k] = decode(*weight.format, codes[static_cast<size_t>(k)], scales[place],
                          offsets.empty() ? 0.0f : offsets[place]);
        }
      }
    }
  }
  weight.has_contents = true;
  return ok();
}

std::vector<device::ResidentWeight> Store::resident_weights() const {
  std::vector<device::ResidentWeight> resident;
  for (const Entry& weight : weights_) {
    resident.push_back({weight.name, {weight.pages.data(), static_cast<size_t>(weight.pages.bytes())}});
  }
  return resident;
}

std::optional<device::StateId> Store::find_state(std::string_view name) const {
  const auto found = state_index_.find(name);
  if (found == state_index_.end()) return std::nullopt;
  return device::StateId(static_cast<int32_t>(found->second));
}

const Store::Entry& Store::entry(device::StateId state) const {
  LOCKSTEP_CHECK(state.value >= 0 && static_cast<size_t>(state.value) < states_.size(), state.value, states_.size());
  return states_[static_cast<size_t>(state.value)];
}

Result<void> Store::write_state(device::StateId state, int64_t offset, std::span<const std::byte> bytes) {
  const Entry& target = entry(state);
  if (target.belongs_to_slots()) {
    return invalid(fmt::format("cannot write state {}: it is a cache", target.name));
  }
  LOCKSTEP_TRY_VOID(check_range(target.name, target.tensor, offset, bytes.size()));
  if (!bytes.empty()) std::memcpy(target.tensor.memory + offset, bytes.data(), bytes.size());
  return ok();
}

Result<void> Store::read_state(device::StateId state, int64_t offset, std::span<std::byte> bytes) const {
  const Entry& source = entry(state);
  if (source.belongs_to_slots()) {
    return invalid(fmt::format("cannot read state {}: it is a cache; use read_cache", source.name));
  }
  LOCKSTEP_TRY_VOID(check_range(source.name, source.tensor, offset, bytes.size()));
  if (!bytes.empty()) std::memcpy(bytes.data(), source.tensor.memory + offset, bytes.size());
  return ok();
}

template <typename Visit>
void Store::for_each_stretch(int64_t slot, int64_t tokens, Visit visit) const {
  for (const Entry& state : states_) {
    if (!state.belongs_to_slots()) continue;
    const Shape& shape = state.tensor.type.shape;  // [slots, …]; of a cache [slots, heads, capacity, head_dim]
    LOCKSTEP_CHECK(slot >= 0 && slot < shape[0] && tokens >= 0, slot, shape[0], tokens);
    const int64_t bytes = state.tensor.type.bytes() / shape[0];
    std::byte* const memory = state.tensor.memory + slot * bytes;
    if (state.is_carried) {
      visit(memory, bytes);
      continue;
    }
    const auto row = shape[3] * static_cast<int64_t>(size_of(state.tensor.type.dtype));
    for (int64_t g = 0; g < shape[1]; ++g) visit(memory + g * shape[2] * row, row * std::min(tokens, shape[2]));
  }
}

Result<void> Store::copy_slot(int64_t src, int64_t dst, int64_t tokens) {
  for (const Entry& state : states_) {
    if (!state.belongs_to_slots()) continue;
    const int64_t slots = state.tensor.type.shape[0];
    if (src >= 0 && dst >= 0 && src < slots && dst < slots && tokens >= 0) continue;
    return invalid(
        fmt::format("cannot copy slot {} to {} of {}: expected slots 0 to {}", src, dst, state.name, slots - 1));
  }
  if (src == dst) return ok();
  std::vector<std::byte> bytes(static_cast<size_t>(slot_bytes(tokens)));
  LOCKSTEP_TRY_VOID(take_slot(src, tokens, bytes));
  return put_slot(dst, tokens, bytes);
}

int64_t Store::slot_bytes(int64_t tokens) const {
  int64_t all = 0;
  for_each_stretch(0, tokens, [&](const std::byte*, int64_t bytes) { all += bytes; });
  return all;
}

Result<void> Store::take_slot(int64_t slot, int64_t tokens, std::span<std::byte> dst) const {
  LOCKSTEP_CHECK(std::ssize(dst) == slot_bytes(tokens), dst.size(), tokens);
  std::byte* to = dst.data();
  for_each_stretch(slot, tokens, [&](const std::byte* memory, int64_t bytes) { to = std::copy_n(memory, bytes, to); });
  return ok();
}

Result<void> Store::put_slot(int64_t slot, int64_t tokens, std::span<const std::byte> src) {
  LOCKSTEP_CHECK(std::ssize(src) == slot_bytes(tokens), src.size(), tokens);
  const std::byte* from = src.data();
  for_each_stretch(slot, tokens, [&](std::byte* memory, int64_t bytes) {
    std::copy_n(from, bytes, memory);
    from += bytes;
  });
  return ok();
}

Result<std::vector<std::byte>> Store::read_cache(device::StateId state) const {
  const Entry& source = entry(state);
  if (!source.belongs_to_slots()) {
    return invalid(fmt::format("cannot read state {}: it is not a cache", source.name));
  }
  const std::byte* data = source.tensor.memory;
  return std::vector<std::byte>(data, data + source.tensor.type.bytes());
}

const void* Store::state_address(device::StateId state) const { return entry(state).tensor.memory; }

device::MemoryReport Store::memory() const {
  device::MemoryReport report;
  report.workspace = workspace_;
  for (const Entry& weight : weights_) report.weights += Bytes(weight.pages.resident());
  for (const Entry& state : states_) {
    report.states_reserved += Bytes(state.pages.bytes());
    report.states_resident += Bytes(state.pages.resident());
  }
  return report;
}

std::optional<Tensor> Store::weight(std::string_view name) const {
  const auto found = weight_index_.find(name);
  if (found == weight_index_.end()) return std::nullopt;
  return weights_[found->second].tensor;
}

std::optional<Tensor> Store::state(std::string_view name) const {
  const auto found = state_index_.find(name);
  if (found == state_index_.end()) return std::nullopt;
  return states_[found->second].tensor;
}

Result<void> Store::require_weights() const {
  const auto missing = std::find_if(weights_.begin(), weights_.end(), [](const Entry& w) { return !w.has_contents; });
  if (missing == weights_.end()) return ok();
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[runtime/backends/reference] cannot run: weight {} was never set; load every weight before "
                           "the first step",
                           missing->name)};
}

}  // namespace lockstep::reference
