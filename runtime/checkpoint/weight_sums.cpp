#include "runtime/checkpoint/weight_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "runtime/checkpoint/json_document.h"
#include "runtime/core/check.h"
#include "runtime/gguf/gguf_model.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSumsFormat = "lockstep sums 1", kSumsFile = "lockstep.sums.json";
constexpr int64_t kLargestSums = int64_t{1} << 30;  // bytes of the file
constexpr int64_t kMostSummedRank = 8, kLargestExtent = int64_t{1} << 40;
constexpr int64_t kSummedAtOnce = int64_t{1} << 20;    // elements
constexpr int64_t kFirstScaleLane = int64_t{1} << 40;  // lanes of scales follow those of any row of codes
constexpr std::array kSummedTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr std::array kSummedKinds = {SummedKind::kFloat32, SummedKind::kBFloat16, SummedKind::kFloat16,
                                     SummedKind::kCodes};

Error wrong_sums(std::string_view origin, const std::string& found_and_expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/checkpoint] cannot read the sums {}: {}; remove the file, or write it again with "
                      "lockstep verify --write --replace",
                      origin, found_and_expected)};
}

std::optional<uint64_t> hexadecimal(std::string_view text) {
  uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Fails for a key outside `known`.
Result<void> require_known(const nlohmann::json& object, std::initializer_list<std::string_view> known,
                           std::string_view origin, std::string_view where) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) == known.end()) {
      return wrong_sums(
          origin, fmt::format("{}found the key {}, expected only {}", where, describe(key), fmt::join(known, ", ")));
    }
  }
  return ok();
}

Result<Shape> parse_shape(const nlohmann::json* value, std::string_view origin, const std::string& name) {
  const auto is_extent = [](const nlohmann::json& extent) {
    return extent.is_number_unsigned() && extent.get<uint64_t>() <= static_cast<uint64_t>(kLargestExtent);
  };
  if (value == nullptr || !value->is_array() || std::ssize(*value) > kMostSummedRank ||
      !std::ranges::all_of(*value, is_extent)) {
    return wrong_sums(origin, fmt::format("tensor {}: found a shape of {}, expected a list of at most {} extents", name,
                                          value == nullptr ? "nothing" : describe(*value), kMostSummedRank));
  }
  return Shape(value->get<std::vector<int64_t>>());
}

Result<TensorSums> parse_tensor(const nlohmann::json& value, std::string_view origin, const std::string& name) {
  if (!value.is_object()) {
    return wrong_sums(origin, fmt::format("tensor {}: found {}, expected an object", name, describe(value)));
  }
  LOCKSTEP_TRY_VOID(require_known(value, {"dtype", "shape", "sums"}, origin, fmt::format("tensor {}: ", name)));
  const KeyReader reader(value, std::string(origin));
  TensorSums tensor;
  const nlohmann::json *dtype = reader.find("dtype"), *sums = reader.find("sums");
  if (dtype == nullptr || !dtype->is_string() || sums == nullptr || !sums->is_object()) {
    return wrong_sums(origin, fmt::format("tensor {}: found no dtype or sums, expected a text and an object", name));
  }
  tensor.stored_dtype = dtype->get<std::string>();
  LOCKSTEP_TRY(tensor.shape, parse_shape(reader.find("shape"), origin, name));
  for (const auto& [text, sum] : sums->items()) {
    const auto kind = std::ranges::find(kSummedKinds, text, [](SummedKind known) { return to_string(known); });
    const auto parsed = sum.is_string() ? tensor_sum_from_text(sum.get<std::string>()) : std::nullopt;
    if (kind == kSummedKinds.end() || !parsed) {
      return wrong_sums(origin, fmt::format("tensor {}: found {} as sum of {}, expected 32 hexadecimal digits of "
                                            "float32, bfloat16, float16 or codes",
                                            name, describe(sum), describe(text)));
    }
    tensor.sums.emplace(*kind, *parsed);
  }
  return tensor;
}

/// Some rows of one tensor.
struct SummedBlock {
  const std::string* name = nullptr;
  const TensorEntry* entry = nullptr;
  std::vector<Range> ranges;
};

/// All tensors of `checkpoint` in blocks of rows, in the order of the files.
std::vector<SummedBlock> blocks_of(const Checkpoint& checkpoint) {
  std::vector<std::pair<int64_t, SummedBlock>> placed;
  for (const auto& [name, entry] : checkpoint.tensors()) {
    const Shape& shape = entry.type.shape;
    if (!entry.can_be_read || shape.rank() > 2) continue;
    const int64_t rows = shape.rank() == 0 ? 1 : shape[0], columns = shape.rank() < 2 ? 1 : shape[1];
    if (rows * columns == 0) continue;
    const int64_t at_once = std::max(kSummedAtOnce / columns, checkpoint.rows_at_once(name));
    for (int64_t row = 0; row < rows; row += std::max<int64_t>(1, at_once)) {
      SummedBlock block{&name, &entry, {}};
      if (shape.rank() > 0) block.ranges.push_back({row, std::min(rows, row + std::max<int64_t>(1, at_once))});
      if (shape.rank() > 1) block.ranges.push_back({0, columns});
      placed.emplace_back(checkpoint.place_of(name), std::move(block));
    }
  }
  std::ranges::stable_sort(placed, {}, [](const auto& one) { return one.first; });
  std::vector<SummedBlock> blocks;
  for (auto& [place, block] : placed) blocks.push_back(std::move(block));
  return blocks;
}

int64_t elements_of(const SummedBlock& block) {
  int64_t elements = 1;
  for (const Range& range : block.ranges) elements *= range.size();
  return elements;
}

/// Sums blocks of a checkpoint; one for each thread.
class BlockSummer {
 public:
  explicit BlockSummer(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  Result<std::map<SummedKind, TensorSum>> sum(const SummedBlock& block) {
    std::map<SummedKind, TensorSum> sums;
    if (block.entry->format) {
      LOCKSTEP_TRY(sums[SummedKind::kCodes], codes_of(block));
    }
    const auto elements = static_cast<size_t>(elements_of(block));
    for (const DType dtype : kSummedTypes) {
      bytes_.resize(elements * size_of(dtype));
      if (block.entry->format && dtype != DType::kFloat32) {  // decoded to float32, then converted, as by `read`
        convert_elements(floats_.data(), DType::kFloat32, bytes_.data(), dtype, elements);
      } else {
        LOCKSTEP_TRY_VOID(checkpoint_.read(*block.name, block.entry->type.shape, block.ranges, dtype, bytes_));
      }
      sums[summed_kind(dtype)] = sum_of_elements(bytes_, dtype, block.ranges);
      if (block.entry->format && dtype == DType::kFloat32) floats_ = bytes_;
    }
    return sums;
  }

 private:
  Result<TensorSum> codes_of(const SummedBlock& block) {
    const WeightFormat& format = *block.entry->format;
    const Range rows = block.ranges[0], columns = block.ranges[1];
    const auto groups = static_cast<size_t>(rows.size() * ((columns.end + format.group - 1) / format.group));
    codes_.resize(static_cast<size_t>(rows.size() * columns.size()));
    scales_.resize(groups);
    offsets_.resize(format.offset == GroupOffset::kNone ? 0 : groups);
    const CodedRows read{codes_, scales_, offsets_};
    LOCKSTEP_TRY_VOID(checkpoint_.read_codes(*block.name, block.entry->type.shape, rows, columns, read));
    return sum_of_codes(read, format, rows, columns);
  }

  const Checkpoint& checkpoint_;
  std::vector<std::byte> bytes_, floats_;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_, offsets_;
};

}  // namespace

std::string_view to_string(SummedKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"float32", "bfloat16", "float16", "codes"};
  return kNames.at(static_cast<size_t>(kind));
}

SummedKind summed_kind(DType dtype) {
  LOCKSTEP_CHECK(is_float(dtype), lockstep::to_string(dtype));
  if (dtype == DType::kFloat32) return SummedKind::kFloat32;
  return dtype == DType::kBFloat16 ? SummedKind::kBFloat16 : SummedKind::kFloat16;
}

TensorSum sum_of_elements(std::span<const std::byte> elements, DType dtype, std::span<const Range> ranges) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  const int64_t columns = ranges.size() > 1 ? ranges[1].size() : 1;
  if (elements.empty()) return {};
  return sum_of_rows(
      elements, columns * size,
      {.row = ranges.empty() ? 0 : ranges[0].begin, .byte = ranges.size() > 1 ? ranges[1].begin * size : 0});
}

TensorSum sum_of_codes(const CodedRows& read, const WeightFormat& format, Range rows, Range columns) {
  if (read.codes.empty()) return {};
  TensorSum sum = sum_of_rows(std::as_bytes(read.codes), columns.size(), {.row = rows.begin, .byte = columns.begin});
  const int64_t first_read = columns.begin / format.group, end = (columns.end + format.group - 1) / format.group;
  const int64_t first = (columns.begin + format.group - 1) / format.group;  // whose first column is here
  if (first == end) return sum;
  std::vector<uint64_t> lanes(static_cast<size_t>(rows.size() * (end - first)));
  auto lane = lanes.begin();
  for (int64_t row = 0; row < rows.size(); ++row) {
    for (int64_t group = first; group < end; ++group, ++lane) {
      const auto at = static_cast<size_t>(row * (end - first_read) + group - first_read);
      *lane = std::bit_cast<uint32_t>(read.scales[at]);
      if (!read.offsets.empty()) *lane |= uint64_t{std::bit_cast<uint32_t>(read.offsets[at])} << 32;
    }
  }
  return sum += sum_of_rows(std::as_bytes(std::span(lanes)), (end - first) * kSumLane,
                            {.row = rows.begin, .byte = (kFirstScaleLane + first) * kSumLane});
}

bool is_between_lanes(SummedKind kind, int64_t column) {
  const auto size =
      kind == SummedKind::kCodes ? 1 : static_cast<int64_t>(size_of(kSummedTypes[static_cast<size_t>(kind)]));
  return column * size % kSumLane == 0;
}

std::string to_text(const WeightSums& sums) {
  std::string text = fmt::format(R"({{"format": "{}", "files": "{:016x}", "tensors": {{)", kSumsFormat, sums.files);
  const char* separator = "\n";  // a line for each tensor
  for (const auto& [name, tensor] : sums.tensors) {
    Json written{{"dtype", tensor.stored_dtype}, {"shape", tensor.shape.dims()}, {"sums", Json::object()}};
    for (const auto& [kind, sum] : tensor.sums) {
      written["sums"][std::string(to_string(kind))] = lockstep::to_string(sum);
    }
    text += fmt::format("{}{}: {}", separator, Json(name).dump(), written.dump());
    separator = ",\n";
  }
  return text + "\n}}\n";
}

Result<WeightSums> parse_weight_sums(std::string_view text, std::string_view origin) {
  LOCKSTEP_TRY(const nlohmann::json document, parse_json_object(text, origin));
  LOCKSTEP_TRY_VOID(require_known(document, {"format", "files", "tensors"}, origin, ""));
  const KeyReader reader(document, std::string(origin));
  const nlohmann::json *format = reader.find("format"), *files = reader.find("files"),
                       *tensors = reader.find("tensors");
  if (format == nullptr || *format != std::string(kSumsFormat)) {
    return wrong_sums(origin, fmt::format("found the format {}, expected \"{}\"",
                                          format == nullptr ? "nothing" : describe(*format), kSumsFormat));
  }
  const auto print = files != nullptr && files->is_string() ? hexadecimal(files->get<std::string>()) : std::nullopt;
  if (!print || tensors == nullptr || !tensors->is_object()) {
    return wrong_sums(origin, "found no files or tensors, expected 16 hexadecimal digits and an object");
  }
  WeightSums sums{.files = *print, .tensors = {}};
  for (const auto& [name, value] : tensors->items()) {
    LOCKSTEP_TRY(TensorSums tensor, parse_tensor(value, origin, name));
    sums.tensors.emplace(name, std::move(tensor));
  }
  return sums;
}

std::filesystem::path path_of_sums(const std::filesystem::path& model) {
  if (!gguf::is_gguf(model)) return model / kSumsFile;
  return model.parent_path() / (model.filename().string() + ".sums.json");
}

Result<std::optional<std::string>> read_sums_text(const std::filesystem::path& model) {
  auto text = read_text_file(path_of_sums(model), kLargestSums);
  if (text.has_value()) return std::optional(std::move(text).value());
  if (text.error().kind == ErrorKind::kNotFound) return std::optional<std::string>();
  return text.error();
}

Result<WeightSums> sum_weights(const Checkpoint& checkpoint, int threads) {
  WeightSums sums{.files = checkpoint.fingerprint(), .tensors = {}};
  const std::vector<SummedBlock> blocks = blocks_of(checkpoint);
  for (const SummedBlock& block : blocks) {
    sums.tensors.try_emplace(*block.name, TensorSums{block.entry->stored_dtype, block.entry->type.shape, {}});
  }
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  Result<void> outcome = ok();
  const auto work = [&] {
    BlockSummer summer(checkpoint);
    for (size_t i = next++; i < blocks.size(); i = next++) {
      const auto summed = summer.sum(blocks[i]);
      std::lock_guard lock(mutex);
      if (!summed.has_value()) {
        if (outcome.has_value()) outcome = summed.error();
        next = blocks.size();
        return;
      }
      for (const auto& [kind, sum] : summed.value()) sums.tensors.find(*blocks[i].name)->second.sums[kind] += sum;
    }
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  others.clear();
  LOCKSTEP_TRY_VOID(outcome);
  return sums;
}

}  // namespace lockstep::checkpoint
