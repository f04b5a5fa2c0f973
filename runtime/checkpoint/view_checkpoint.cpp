#include "runtime/checkpoint/view_checkpoint.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

namespace lockstep::checkpoint {
namespace {

/// "a.weight", or "a.weight (h.0.a.weight)" if its name in the file differs.
std::string both_names(std::string_view name, const StoredTensor& stored) {
  return name == stored.stored_name ? std::string(name) : fmt::format("{} ({})", name, stored.stored_name);
}

/// Writes the first numbers of `order` as `dtype`, as many as `dst` holds.
Result<void> read_order(std::span<const int32_t> order, DType dtype, std::span<std::byte> dst) {
  const std::vector<float> numbers(order.begin(),
                                   order.begin() + static_cast<std::ptrdiff_t>(dst.size() / size_of(dtype)));
  convert_elements(reinterpret_cast<const std::byte*>(numbers.data()), DType::kFloat32, dst.data(), dtype,
                   numbers.size());
  return ok();
}

/// The value before a conversion changed it.
float without(StoredChange change, float value) {
  return change == StoredChange::kOneAdded ? value - 1.0f : std::log(-value);
}

}  // namespace

StoredTensor as_it_is(const std::string& name, const TensorEntry& entry) {
  StoredTensor stored{.stored_name = name, .entry = entry, .view = {.file = entry.file, .dtype = entry.type.dtype}};
  const Shape& shape = entry.type.shape;
  if (shape.rank() > 2 || shape.elements() == 0) return stored;  // never read: `read` supports at most two dimensions
  TensorView& view = stored.view;
  view.offset = entry.offset;
  view.rows = shape.rank() > 0 ? shape[0] : 1;
  view.columns = shape.rank() > 1 ? shape[1] : 1;
  view.group = view.rows;
  view.row_stride = entry.strides.empty() || shape.rank() == 0 ? view.columns : entry.strides[0];
  view.column_stride = entry.strides.empty() || shape.rank() < 2 ? 1 : entry.strides[1];
  return stored;
}

ViewCheckpoint::ViewCheckpoint(std::unique_ptr<StoredFiles> files,
                               std::map<std::string, StoredTensor, std::less<>> stored,
                               std::function<std::string(std::string_view name)> names_of)
    : files_(std::move(files)), stored_(std::move(stored)), names_of_(std::move(names_of)) {
  for (const auto& [name, tensor] : stored_) tensors_.emplace(name, tensor.entry);
}

Result<const StoredTensor*> ViewCheckpoint::find_readable(std::string_view name, const Shape& expected) const {
  const auto it = stored_.find(name);
  if (it == stored_.end()) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[runtime/checkpoint] cannot read tensor {} of {}: found no tensor {} among {}, expected "
                             "one of shape {}; the checkpoint is incomplete or of another model",
                             name, files_->directory().string(), names_of_(name), files_->tensors().size(),
                             to_string(expected))};
  }
  const StoredTensor& stored = it->second;
  const TensorEntry& entry = stored.entry;
  if (entry.type.shape != expected) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[runtime/checkpoint] cannot read tensor {} of {}: found shape {}, expected {}; config and "
                    "checkpoint do not belong together",
                    both_names(name, stored), entry.file.string(), to_string(entry.type.shape), to_string(expected))};
  }
  if (!entry.can_be_read) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/checkpoint] cannot read tensor {} of {}: found type {}, expected F32, BF16 or "
                             "F16; convert the checkpoint",
                             both_names(name, stored), entry.file.string(), entry.stored_dtype)};
  }
  return &stored;
}

Result<void> ViewCheckpoint::read(std::string_view name, const Shape& expected, std::span<const Range> ranges,
                                  DType dtype, std::span<std::byte> dst) const {
  LOCKSTEP_TRY(const StoredTensor* stored, find_readable(name, expected));
  LOCKSTEP_CHECK(ranges.size() == expected.rank() && ranges.size() <= 2, name, ranges.size(), expected.rank());
  LOCKSTEP_CHECK(is_float(dtype), name, lockstep::to_string(dtype));
  for (size_t axis = 0; axis < ranges.size(); ++axis) {
    const Range& range = ranges[axis];
    LOCKSTEP_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= expected[axis], name,
                   lockstep::to_string(range), lockstep::to_string(expected));
  }
  const Range rows = ranges.empty() ? Range{0, 1} : ranges[0];
  const Range columns = ranges.size() < 2 ? Range{0, 1} : ranges[1];
  const int64_t elements = rows.size() * columns.size();
  LOCKSTEP_CHECK(dst.size() == static_cast<size_t>(elements) * size_of(dtype), name, dst.size(), elements);
  if (elements == 0) return ok();
  if (stored->is_order) return read_order(stored->codes->order().subspan(static_cast<size_t>(rows.begin)), dtype, dst);
  if (stored->codes) return read_decoded(*files_, *stored->codes, rows, columns, dtype, dst);
  if (stored->columns) return read_tiled(*files_, stored->view, *stored->columns, rows, columns, dtype, dst);
  if (stored->change == StoredChange::kNone) return read_view(*files_, stored->view, rows, columns, dtype, dst);
  std::vector<float> values(static_cast<size_t>(elements));
  LOCKSTEP_TRY_VOID(
      read_view(*files_, stored->view, rows, columns, DType::kFloat32, std::as_writable_bytes(std::span(values))));
  for (float& value : values) value = without(stored->change, value);
  convert_elements(reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32, dst.data(), dtype,
                   values.size());
  return ok();
}

Result<void> ViewCheckpoint::read_codes(std::string_view name, const Shape& expected, Range rows, Range columns,
                                        CodedRows dst) const {
  LOCKSTEP_TRY(const StoredTensor* stored, find_readable(name, expected));
  LOCKSTEP_CHECK(stored->codes != nullptr && expected.rank() == 2, name);
  const WeightFormat& format = stored->codes->format();
  const int64_t groups = (columns.end + format.group - 1) / format.group - columns.begin / format.group;
  const auto of_groups = static_cast<size_t>(rows.size() * groups);
  LOCKSTEP_CHECK(dst.codes.size() == static_cast<size_t>(rows.size() * columns.size()), name, dst.codes.size());
  LOCKSTEP_CHECK(dst.scales.size() == of_groups, name, dst.scales.size(), of_groups);
  LOCKSTEP_CHECK(dst.offsets.size() == (format.offset == GroupOffset::kNone ? 0 : of_groups), name, of_groups);
  if (dst.codes.empty()) return ok();
  return stored->codes->read(*files_, rows, columns, dst);
}

int64_t ViewCheckpoint::rows_at_once(std::string_view name) const {
  const auto it = stored_.find(name);
  if (it == stored_.end()) return 1;
  const StoredTensor& stored = it->second;
  if (stored.is_order) return 1;
  return stored.codes ? stored.codes->rows_at_once() : checkpoint::rows_at_once(stored.view);
}

int64_t ViewCheckpoint::place_of(std::string_view name) const {
  const auto it = stored_.find(name);
  return it == stored_.end() ? 0 : files_->place_of(it->second.entry.file, it->second.entry.offset);
}

void ViewCheckpoint::expect(std::string_view name, std::span<const Range> ranges) const {
  const auto it = stored_.find(name);
  if (it == stored_.end() || !it->second.entry.can_be_read || ranges.size() > 2 || it->second.is_order) return;
  const StoredTensor& stored = it->second;
  const Range rows = ranges.empty() ? Range{0, 1} : ranges[0];
  const Range columns = ranges.size() < 2 ? Range{0, 1} : ranges[1];
  if (stored.codes) return stored.codes->expect(*files_, rows, columns);
  if (stored.columns) return expect_tiled(*files_, stored.view, *stored.columns, rows, columns);
  expect_view(*files_, stored.view, rows, columns);
}

}  // namespace lockstep::checkpoint
