#include "runtime/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/random_access_file.h"
#include "runtime/core/hash.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using TensorMap = std::map<std::string, TensorEntry, std::less<>>;

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian and read as they are");

constexpr int64_t kLengthField = 8;
constexpr int64_t kLargestHeader = 100'000'000;          // the format's own limit
constexpr int64_t kLargestIndex = int64_t{256} << 20;    // bytes
constexpr int64_t kConversionBuffer = int64_t{1} << 20;  // bytes

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

/// The bytes of a slice as runs of `run` bytes, `stride` apart; one run when the columns are whole.
struct Runs {
  int64_t first = 0;  // offset in the file
  int64_t count = 0;
  int64_t run = 0;
  int64_t stride = 0;
};

Runs runs_of(const TensorEntry& entry, std::span<const Range> ranges) {
  const auto size = static_cast<int64_t>(size_of(entry.type.dtype));
  if (ranges.empty()) return {entry.offset, 1, size, size};
  if (ranges.size() == 1) return {entry.offset + ranges[0].begin * size, 1, ranges[0].size() * size, 0};
  const int64_t row = entry.type.shape[1] * size;
  if (ranges[1].size() == entry.type.shape[1]) {
    return {entry.offset + ranges[0].begin * row, 1, ranges[0].size() * row, 0};
  }
  return {entry.offset + ranges[0].begin * row + ranges[1].begin * size, ranges[0].size(), ranges[1].size() * size,
          row};
}

class SafetensorsCheckpoint final : public Checkpoint {
 public:
  explicit SafetensorsCheckpoint(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// Opens `directory/name` and reads its header.
  Result<TensorMap> open_file(const std::string& name);
  void add(const std::string& name, TensorEntry entry) { tensors_.emplace(name, std::move(entry)); }

  const TensorMap& tensors() const override { return tensors_; }
  Result<void> read(std::string_view name, const Shape& expected, std::span<const Range> ranges, DType dtype,
                    std::span<std::byte> dst) const override;
  uint64_t fingerprint() const override;
  int64_t bytes_read() const override { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  Result<void> read_bytes(const RandomAccessFile& file, int64_t offset, std::span<std::byte> dst) const;
  Result<const TensorEntry*> find_readable(std::string_view name, const Shape& expected) const;
  Result<void> read_converted(const RandomAccessFile& file, DType stored, const Runs& runs, DType dtype,
                              std::span<std::byte> dst) const;

  std::filesystem::path directory_;
  std::map<std::filesystem::path, std::unique_ptr<RandomAccessFile>> files_;
  TensorMap tensors_;
  mutable std::atomic<int64_t> bytes_read_ = 0;
};

Result<TensorMap> SafetensorsCheckpoint::open_file(const std::string& name) {
  const std::filesystem::path path = directory_ / name;
  LOCKSTEP_TRY(auto file, RandomAccessFile::open(path));
  const int64_t size = file->size();
  if (size < kLengthField) return damaged(path.string(), fmt::format("found {} bytes, expected a header", size));
  uint64_t length = 0;
  LOCKSTEP_TRY_VOID(read_bytes(*file, 0, std::as_writable_bytes(std::span(&length, 1))));
  const int64_t room = std::min(size - kLengthField, kLargestHeader);
  if (length > static_cast<uint64_t>(room)) {
    return damaged(path.string(), fmt::format("found a header of {} bytes, expected at most {}", length, room));
  }
  std::vector<std::byte> header(length);
  LOCKSTEP_TRY_VOID(read_bytes(*file, kLengthField, header));
  LOCKSTEP_TRY(TensorMap found,
               parse_safetensors_header(header, kLengthField + static_cast<int64_t>(length), size, path));
  files_.emplace(path, std::move(file));
  return found;
}

Result<void> SafetensorsCheckpoint::read_bytes(const RandomAccessFile& file, int64_t offset,
                                               std::span<std::byte> dst) const {
  LOCKSTEP_TRY_VOID(file.read(offset, dst));
  bytes_read_.fetch_add(static_cast<int64_t>(dst.size()), std::memory_order_relaxed);
  return ok();
}

Result<const TensorEntry*> SafetensorsCheckpoint::find_readable(std::string_view name, const Shape& expected) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[runtime/checkpoint] cannot read tensor {} of {}: found no tensor of that name among {}, "
                             "expected one of shape {}; the checkpoint is incomplete or of another model",
                             name, directory_.string(), tensors_.size(), to_string(expected))};
  }
  const TensorEntry& entry = it->second;
  if (entry.type.shape != expected) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[runtime/checkpoint] cannot read tensor {} of {}: found shape {}, expected {}; config and "
                    "checkpoint do not belong together",
                    name, entry.file.string(), to_string(entry.type.shape), to_string(expected))};
  }
  if (!entry.can_be_read) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/checkpoint] cannot read tensor {} of {}: found type {}, expected F32, BF16 or "
                             "F16; convert the checkpoint",
                             name, entry.file.string(), entry.stored_dtype)};
  }
  return &entry;
}

Result<void> SafetensorsCheckpoint::read(std::string_view name, const Shape& expected, std::span<const Range> ranges,
                                         DType dtype, std::span<std::byte> dst) const {
  LOCKSTEP_TRY(const TensorEntry* entry, find_readable(name, expected));
  LOCKSTEP_CHECK(ranges.size() == expected.rank() && ranges.size() <= 2, name, ranges.size(), expected.rank());
  LOCKSTEP_CHECK(is_float(dtype), name, lockstep::to_string(dtype));
  int64_t elements = 1;
  for (size_t axis = 0; axis < ranges.size(); ++axis) {
    const Range& range = ranges[axis];
    LOCKSTEP_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= expected[axis], name,
                   lockstep::to_string(range), lockstep::to_string(expected));
    elements *= range.size();
  }
  LOCKSTEP_CHECK(dst.size() == static_cast<size_t>(elements) * size_of(dtype), name, dst.size(), elements);
  if (elements == 0) return ok();
  const Runs runs = runs_of(*entry, ranges);
  const RandomAccessFile& file = *files_.at(entry->file);
  if (entry->type.dtype != dtype) return read_converted(file, entry->type.dtype, runs, dtype, dst);
  for (int64_t i = 0; i < runs.count; ++i) {
    LOCKSTEP_TRY_VOID(read_bytes(file, runs.first + i * runs.stride,
                                 dst.subspan(static_cast<size_t>(i * runs.run), static_cast<size_t>(runs.run))));
  }
  return ok();
}

Result<void> SafetensorsCheckpoint::read_converted(const RandomAccessFile& file, DType stored, const Runs& runs,
                                                   DType dtype, std::span<std::byte> dst) const {
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(runs.run, kConversionBuffer)));
  std::byte* out = dst.data();
  for (int64_t i = 0; i < runs.count; ++i) {
    for (int64_t done = 0; done < runs.run; done += kConversionBuffer) {
      const auto size = static_cast<size_t>(std::min(runs.run - done, kConversionBuffer));
      LOCKSTEP_TRY_VOID(read_bytes(file, runs.first + i * runs.stride + done, std::span(buffer).first(size)));
      const size_t count = size / size_of(stored);
      convert_elements(buffer.data(), stored, out, dtype, count);
      out += count * size_of(dtype);
    }
  }
  return ok();
}

uint64_t SafetensorsCheckpoint::fingerprint() const {
  Fingerprint print;
  for (const auto& [path, file] : files_) print.add(path.filename().string()).add(file->size());
  for (const auto& [name, entry] : tensors_) {
    print.add(name).add(entry.file.filename().string()).add(entry.stored_dtype).add(entry.offset);
    print.add(static_cast<uint64_t>(entry.type.shape.rank()));
    for (const int64_t dim : entry.type.shape.dims()) print.add(dim);
  }
  return print.value();
}

/// The shards of an index: {"weight_map": {"tensor": "file", …}}. The map decides; what else a shard holds is ignored.
Result<void> open_shards(SafetensorsCheckpoint& checkpoint, const std::filesystem::path& index) {
  LOCKSTEP_TRY(const std::string text, read_text_file(index, kLargestIndex));
  LOCKSTEP_TRY(const json document, parse_json_object(text, index.string()));
  const KeyReader reader(document, index.string());
  const json* weight_map = reader.find("weight_map");
  if (weight_map == nullptr || !weight_map->is_object()) return reader.wrong("weight_map", "an object");
  std::map<std::string, TensorMap> shards;
  for (const auto& [name, value] : weight_map->items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : "";
    if (shard.empty() || std::filesystem::path(shard).filename() != shard || shard == "." || shard == "..") {
      return damaged(index.string(), fmt::format("tensor {}: found {}, expected the name of a file beside the index",
                                                 name, describe(value)));
    }
    if (!shards.contains(shard)) {
      auto found = checkpoint.open_file(shard);
      if (!found.has_value() && found.error().kind == ErrorKind::kNotFound) {
        return damaged(index.string(),
                       fmt::format("tensor {}: found no file {}, expected it beside the index", name, shard));
      }
      LOCKSTEP_TRY(TensorMap tensors, std::move(found));
      shards.emplace(shard, std::move(tensors));
    }
    const auto entry = shards[shard].find(name);
    if (entry == shards[shard].end()) {
      return damaged(index.string(),
                     fmt::format("tensor {}: found no such tensor in {}, expected it there", name, shard));
    }
    checkpoint.add(name, entry->second);
  }
  return ok();
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::filesystem::path& directory) {
  auto checkpoint = std::make_unique<SafetensorsCheckpoint>(directory);
  std::error_code ignored;
  if (std::filesystem::exists(directory / kSingleFile, ignored)) {
    LOCKSTEP_TRY(const TensorMap found, checkpoint->open_file(kSingleFile));
    for (const auto& [name, entry] : found) checkpoint->add(name, entry);
  } else if (std::filesystem::exists(directory / kIndexFile, ignored)) {
    LOCKSTEP_TRY_VOID(open_shards(*checkpoint, directory / kIndexFile));
  } else {
    return Error{
        ErrorKind::kNotFound,
        fmt::format("[runtime/checkpoint] cannot open the weights of {}: found neither {} nor {}, expected one "
                    "of them; check the path, or convert the model to safetensors",
                    directory.string(), kSingleFile, kIndexFile)};
  }
  return std::unique_ptr<Checkpoint>(std::move(checkpoint));
}

Result<bool> hold_equal_values(const Checkpoint& checkpoint, std::string_view a, std::string_view b) {
  LOCKSTEP_CHECK(checkpoint.contains(a) && checkpoint.contains(b), a, b);
  const Shape shape = checkpoint.tensors().find(a)->second.type.shape;
  if (checkpoint.tensors().find(b)->second.type.shape != shape) return false;
  LOCKSTEP_CHECK(shape.rank() == 1 || shape.rank() == 2, a, lockstep::to_string(shape));
  const int64_t columns = shape.rank() == 2 ? shape[1] : 1;
  const int64_t block = std::max<int64_t>(1, kConversionBuffer / (4 * std::max<int64_t>(1, columns)));  // rows
  std::vector<float> left, right;
  for (int64_t row = 0; row < shape[0]; row += block) {
    std::vector<Range> ranges = {{row, std::min(row + block, shape[0])}};
    left.resize(static_cast<size_t>(ranges[0].size() * columns));
    right.resize(left.size());
    if (shape.rank() == 2) ranges.push_back({0, columns});
    LOCKSTEP_TRY_VOID(checkpoint.read(a, shape, ranges, DType::kFloat32, std::as_writable_bytes(std::span(left))));
    LOCKSTEP_TRY_VOID(checkpoint.read(b, shape, ranges, DType::kFloat32, std::as_writable_bytes(std::span(right))));
    if (left != right) return false;
  }
  return true;
}

}  // namespace lockstep::checkpoint
