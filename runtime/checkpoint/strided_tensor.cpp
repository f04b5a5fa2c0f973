#include "runtime/checkpoint/strided_tensor.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::checkpoint {
namespace {

/// Leaves the strides empty if there are no elements.
Strided strided(const TensorEntry& entry) {
  Strided tensor{entry.type.shape.dims(), entry.strides, entry.offset};
  if (!tensor.strides.empty() || entry.type.shape.elements() == 0) return tensor;
  int64_t stride = 1;
  for (size_t axis = tensor.dims.size(); axis-- > 0; stride *= tensor.dims[axis]) {
    tensor.strides.insert(tensor.strides.begin(), stride);
  }
  return tensor;
}

void select_of_first_axis(Strided& tensor, int64_t index, DType dtype) {
  tensor.offset += index * tensor.strides[0] * static_cast<int64_t>(size_of(dtype));
  tensor.dims.erase(tensor.dims.begin());
  tensor.strides.erase(tensor.strides.begin());
}

/// The channels' taps as a matrix.
Result<Strided> channels_of(const std::string& name, const TensorEntry& entry) {
  if (entry.type.shape.rank() != 3 || entry.type.shape[1] != 1 || entry.type.shape.elements() == 0) {
    return wrong_shape(name, entry, "[channels, 1, taps]");
  }
  Strided tensor = strided(entry);
  tensor.dims.erase(tensor.dims.begin() + 1);
  tensor.strides.erase(tensor.strides.begin() + 1);
  return tensor;
}

/// The heads of a stack as one matrix.
Result<Strided> heads_of(const std::string& name, const TensorEntry& entry) {
  Strided tensor = strided(entry);
  if (tensor.dims.size() != 3 || !entry.strides.empty() || tensor.strides.empty()) {
    return wrong_shape(name, entry, "a dense stack of heads");
  }
  tensor.dims = {tensor.dims[0] * tensor.dims[1], tensor.dims[2]};
  tensor.strides.erase(tensor.strides.begin());
  return tensor;
}

}  // namespace

Error wrong_shape(const std::string& name, const TensorEntry& entry, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/checkpoint] cannot use tensor {} of {}: found shape {}, expected {}; config and "
                      "checkpoint do not belong together",
                      name, entry.file.string(), to_string(entry.type.shape), expected)};
}

Result<Strided> expert_of(const std::string& name, const TensorEntry& entry, size_t rank, StackPlace place) {
  const Shape& shape = entry.type.shape;
  if (shape.rank() != rank || shape[0] != place.experts || shape.elements() == 0) {
    return wrong_shape(name, entry, fmt::format("{} dimensions, the first of {} experts", rank, place.experts));
  }
  Strided tensor = strided(entry);
  select_of_first_axis(tensor, place.expert, entry.type.dtype);
  return tensor;
}

Result<Strided> matrix_of(const std::string& name, const TensorEntry& entry, const StoredForm& form, StackPlace place) {
  if (is_stack(form.axes)) return expert_of(name, entry, place.is_bias ? 2 : 3, place);
  if (form.axes == Axes::kChannels) return channels_of(name, entry);
  if (form.axes == Axes::kHeadsOutputInput) return heads_of(name, entry);
  Strided tensor = strided(entry);
  if (form.outputs == Outputs::kAsRow && tensor.dims.size() == 1) {
    tensor.dims.insert(tensor.dims.begin(), 1);
    tensor.strides.insert(tensor.strides.begin(), tensor.dims[1]);
  }
  if (form.outputs != Outputs::kOnlyRow) return tensor;
  if (tensor.dims.size() != 2 || tensor.dims[0] != 1) return wrong_shape(name, entry, "a matrix of one row");
  select_of_first_axis(tensor, 0, entry.type.dtype);
  return tensor;
}

TensorEntry as_bytes(TensorEntry entry, const GgufFormat& blocks) {
  std::vector<int64_t> dims = entry.type.shape.dims();
  dims.back() = dims.back() / blocks.block * blocks.bytes;
  entry.type = {DType::kUInt8, Shape(std::move(dims))};
  return entry;
}

TensorView transposed_groups(TensorView view) {
  const int64_t inputs = std::exchange(view.columns, view.group);
  view.rows = view.rows / view.group * inputs;
  view.group = inputs;
  std::swap(view.row_stride, view.column_stride);
  return view;
}

}  // namespace lockstep::checkpoint
