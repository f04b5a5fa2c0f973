#include "runtime/checkpoint/quantised_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <thread>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/view_checkpoint.h"
#include "runtime/checkpoint/weight_sums.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/check.h"
#include "runtime/gguf/gguf_model.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostShardBytes = 5'000'000'000;
constexpr int64_t kLargestConfig = int64_t{64} << 20;
constexpr int64_t kCopyBytes = int64_t{1} << 24;
constexpr std::string_view kWeight = ".weight";

/// One tensor of the copy.
struct Output {
  std::string name;
  std::string dtype;  // in the notation of safetensors
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

/// One tensor of the source and what becomes of it: itself, or the three tensors of a matrix in codes.
struct Item {
  const TensorEntry* source = nullptr;
  std::string module;  // of a matrix in codes; empty: a copy
  std::vector<Output> outputs;

  int64_t bytes() const {
    int64_t sum = 0;
    for (const Output& output : outputs) sum += output.bytes;
    return sum;
  }
};

/// Columns of i32 words that hold a row's codes.
int64_t words_of(int64_t columns, int bits) { return (columns * bits + 31) / 32; }

/// The modules whose matrices get codes: those of layers that are stored as [outputs, inputs].
std::set<std::string> modules_of(const StoredTensors& tensors, const StoredFiles& files, int64_t group) {
  std::set<std::string> modules;
  for (const auto& [name, stored] : tensors) {
    if (!may_have_codes(name) || name == "lm_head.weight" || !stored.stored_name.ends_with(kWeight)) continue;
    const auto file = files.tensors().find(stored.stored_name);
    if (file == files.tensors().end() || !file->second.can_be_read) continue;
    const Shape& shape = file->second.type.shape;
    const bool is_by_outputs = shape.rank() == 2 && shape[1] == stored.view.columns && stored.view.column_stride == 1;
    if (!is_by_outputs || shape[1] % group != 0) continue;
    modules.insert(stored.stored_name.substr(0, stored.stored_name.size() - kWeight.size()));
  }
  return modules;
}

/// Quantises rows of one matrix and packs them.
class MatrixWriter {
 public:
  MatrixWriter(const StoredFiles& files, const std::string& name, const TensorEntry& entry, const WeightFormat& format)
      : files_(files),
        view_(as_it_is(name, entry).view),
        format_(format),
        packed_(static_cast<size_t>(view_.rows * row_bytes())),
        scales_(static_cast<size_t>(view_.rows * groups()) * static_cast<size_t>(size_of(format.scale))) {}

  /// Does all rows with `threads` threads.
  Result<void> run(int threads) {
    std::vector<Result<void>> results(static_cast<size_t>(threads), ok());
    std::vector<std::jthread> workers;
    const auto part = [&](int64_t i) { return view_.rows * i / threads; };
    for (int i = 0; i < threads; ++i) {
      workers.emplace_back([&, i] { results[static_cast<size_t>(i)] = quantise_rows({part(i), part(i + 1)}); });
    }
    workers.clear();  // joins
    for (const Result<void>& result : results) LOCKSTEP_TRY_VOID(result);
    return ok();
  }

  std::span<const std::byte> packed() const { return packed_; }
  std::span<const std::byte> scales() const { return scales_; }
  QuantisedMatrix statistics(std::string module) const {
    const double elements = elements_.load(), changes = changes_.load();
    return {std::move(module), view_.rows, view_.columns, elements > 0.0 ? std::sqrt(changes / elements) : 0.0};
  }

 private:
  int64_t groups() const { return view_.columns / format_.group; }
  int64_t row_bytes() const { return 4 * words_of(view_.columns, format_.bits); }

  Result<void> quantise_rows(Range rows) {
    std::vector<float> row(static_cast<size_t>(view_.columns));
    std::vector<uint8_t> codes(row.size());
    double elements = 0.0, changes = 0.0;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      LOCKSTEP_TRY_VOID(read_view(files_, view_, {r, r + 1}, {0, view_.columns}, DType::kFloat32,
                                  std::as_writable_bytes(std::span(row))));
      for (int64_t group = 0; group < groups(); ++group) {
        const auto first = static_cast<size_t>(group * format_.group);
        const float scale = quantise(format_, row.data() + first, format_.group, codes.data() + first);
        if (std::isnan(scale)) return not_finite(r, group);
        set_scale(r * groups() + group, scale);
        for (size_t k = first; k < first + static_cast<size_t>(format_.group); ++k) {
          const double change = double{row[k]} - double{decode(format_, codes[k], scale, 0.0f)};
          elements += double{row[k]} * double{row[k]};
          changes += change * change;
        }
      }
      pack_row(codes, packed_.data() + r * row_bytes());
    }
    elements_ += elements;
    changes_ += changes;
    return ok();
  }

  void set_scale(int64_t index, float scale) {
    const auto size = static_cast<size_t>(size_of(format_.scale));
    const DType dtype = format_.scale == ScaleType::kFloat32    ? DType::kFloat32
                        : format_.scale == ScaleType::kBFloat16 ? DType::kBFloat16
                                                                : DType::kFloat16;
    convert_elements(reinterpret_cast<const std::byte*>(&scale), DType::kFloat32,
                     scales_.data() + static_cast<size_t>(index) * size, dtype, 1);
  }

  void pack_row(std::span<const uint8_t> codes, std::byte* dst) const {
    for (size_t k = 0; k < codes.size(); ++k) {
      if (format_.bits == 8) {
        dst[k] = static_cast<std::byte>(codes[k]);
      } else {
        dst[k / 2] |= static_cast<std::byte>(k % 2 == 0 ? codes[k] : codes[k] << 4);
      }
    }
  }

  Error not_finite(int64_t row, int64_t group) const {
    return {
        ErrorKind::kInvalidArgument,
        fmt::format("[runtime/checkpoint] cannot quantise {}: found a NaN or an infinity in row {}, columns {} to {}, "
                    "expected numbers; repair the checkpoint",
                    view_.file.string(), row, group * format_.group, (group + 1) * format_.group - 1)};
  }

  const StoredFiles& files_;
  const TensorView view_;
  const WeightFormat format_;
  std::vector<std::byte> packed_, scales_;
  std::atomic<double> elements_ = 0.0, changes_ = 0.0;  // sums of squares
};

/// Plans and writes one copy.
class CopyWriter {
 public:
  CopyWriter(const StoredFiles& files, const ModelSpec& spec, std::filesystem::path dst, const CopyOptions& options)
      : files_(files), dst_(std::move(dst)), options_(options), format_{.bits = options.bits, .group = options.group} {
    if (spec.dtype == DType::kBFloat16) format_.scale = ScaleType::kBFloat16;
    if (spec.dtype == DType::kFloat16) format_.scale = ScaleType::kFloat16;
  }

  Result<QuantisedCopy> run(const StoredTensors& tensors) {
    modules_ = modules_of(tensors, files_, options_.group);
    if (modules_.empty()) {
      return Error{ErrorKind::kUnsupported,
                   fmt::format("[runtime/checkpoint] cannot quantise {}: found no matrix stored as [outputs, inputs] "
                               "whose columns are a multiple of {}, expected some; choose another group, or quantise "
                               "while loading (--weights)",
                               files_.directory().string(), options_.group)};
    }
    for (const auto& [name, entry] : files_.tensors()) plan(name, entry);
    LOCKSTEP_TRY_VOID(write_shards());
    LOCKSTEP_TRY_VOID(copy_other_files());
    LOCKSTEP_TRY_VOID(write_config());
    copy_.bytes_before = files_.bytes_of_files();
    return std::move(copy_);
  }

 private:
  std::string_view scale_dtype() const {
    return format_.scale == ScaleType::kFloat32 ? "F32" : format_.scale == ScaleType::kBFloat16 ? "BF16" : "F16";
  }

  void plan(const std::string& name, const TensorEntry& entry) {
    const std::string module = name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : "";
    if (!modules_.contains(module)) {
      if (!module.empty() && entry.type.shape.rank() == 2) copy_.kept.push_back(module);
      items_.push_back({&entry, "", {{name, entry.stored_dtype, entry.type.shape.dims(), entry.bytes}}});
      return;
    }
    const int64_t rows = entry.type.shape[0], columns = entry.type.shape[1];
    const int64_t words = words_of(columns, format_.bits), groups = columns / format_.group;
    items_.push_back({&entry,
                      module,
                      {{module + ".weight_packed", "I32", {rows, words}, 4 * rows * words},
                       {module + ".weight_scale",
                        std::string(scale_dtype()),
                        {rows, groups},
                        size_of(format_.scale) * rows * groups},
                       {module + ".weight_shape", "I64", {2}, 16}}});
  }

  Result<void> write_shards() {
    std::vector<std::span<const Item>> shards;
    for (size_t begin = 0; begin < items_.size();) {
      size_t end = begin;
      int64_t bytes = 0;
      while (end < items_.size() && (end == begin || bytes + items_[end].bytes() <= kMostShardBytes)) {
        bytes += items_[end++].bytes();
      }
      shards.push_back(std::span(items_).subspan(begin, end - begin));
      begin = end;
    }
    Json index{{"metadata", {{"total_size", int64_t{0}}}}, {"weight_map", Json::object()}};
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shards.size() == 1
                                   ? "model.safetensors"
                                   : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
      LOCKSTEP_TRY_VOID(write_shard(name, shards[i]));
      for (const Item& item : shards[i]) {
        for (const Output& output : item.outputs) index["weight_map"][output.name] = name;
      }
    }
    index["metadata"]["total_size"] = copy_.bytes_after;
    if (shards.size() == 1) return ok();
    return write_text_file(dst_ / "model.safetensors.index.json", index.dump(2) + "\n");
  }

  Result<void> write_shard(const std::string& name, std::span<const Item> items) {
    Json header{{"__metadata__", {{"format", "pt"}}}};
    int64_t offset = 0;
    for (const Item& item : items) {
      for (const Output& output : item.outputs) {
        header[output.name] = {
            {"dtype", output.dtype}, {"shape", output.shape}, {"data_offsets", {offset, offset + output.bytes}}};
        offset += output.bytes;
      }
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t length = text.size();
    LOCKSTEP_TRY(AtomicFile file, AtomicFile::create(dst_ / name));
    LOCKSTEP_TRY_VOID(append(file, std::as_bytes(std::span(&length, 1))));
    LOCKSTEP_TRY_VOID(file.append(text));
    for (const Item& item : items) {
      LOCKSTEP_TRY_VOID(item.module.empty() ? copy_tensor(item, file) : write_matrix(item, file));
      ++written_;
      if (options_.progress) options_.progress(static_cast<double>(written_) / static_cast<double>(items_.size()));
    }
    copy_.bytes_after += static_cast<int64_t>(sizeof length + text.size()) + offset;
    return file.commit();
  }

  static Result<void> append(AtomicFile& file, std::span<const std::byte> bytes) {
    return file.append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  Result<void> write_matrix(const Item& item, AtomicFile& file) {
    MatrixWriter writer(files_, item.module, *item.source, format_);
    LOCKSTEP_TRY_VOID(writer.run(std::max(1, options_.threads)));
    copy_.matrices.push_back(writer.statistics(item.module));
    const std::vector<int64_t> shape = item.source->type.shape.dims();
    LOCKSTEP_TRY_VOID(append(file, writer.packed()));
    LOCKSTEP_TRY_VOID(append(file, writer.scales()));
    return append(file, std::as_bytes(std::span(shape)));
  }

  /// As it is; a tensor of a .bin file may have gaps.
  Result<void> copy_tensor(const Item& item, AtomicFile& file) const {
    const TensorEntry& entry = *item.source;
    std::vector<std::byte> buffer(static_cast<size_t>(std::min(entry.bytes, kCopyBytes)));
    if (!entry.strides.empty() && entry.bytes > 0) {
      const TensorView view = as_it_is(item.outputs[0].name, entry).view;
      buffer.resize(static_cast<size_t>(entry.bytes));
      LOCKSTEP_TRY_VOID(read_view(files_, view, {0, view.rows}, {0, view.columns}, view.dtype, buffer));
      return append(file, buffer);
    }
    for (int64_t done = 0; done < entry.bytes; done += kCopyBytes) {
      const auto part = std::span(buffer).first(static_cast<size_t>(std::min(kCopyBytes, entry.bytes - done)));
      LOCKSTEP_TRY_VOID(files_.read(files_.file(entry.file), entry.offset + done, part));
      LOCKSTEP_TRY_VOID(append(file, part));
    }
    return ok();
  }

  /// Except the sums of the weights, which the new weights differ from.
  Result<void> copy_other_files() const {
    const std::filesystem::path sums = path_of_sums(files_.directory()).filename();
    std::error_code failure;
    for (const auto& file : std::filesystem::directory_iterator(files_.directory(), failure)) {
      const std::string name = file.path().filename().string(), kind = file.path().extension().string();
      const bool is_weights = kind == ".safetensors" || kind == ".bin" || name.ends_with(".index.json");
      if (!file.is_regular_file() || is_weights || name == "config.json" || name == sums) continue;
      std::filesystem::copy_file(file.path(), dst_ / name, failure);
      if (failure) break;
    }
    if (!failure) return ok();
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/checkpoint] cannot copy the files of {} to {}: {}", files_.directory().string(),
                             dst_.string(), failure.message())};
  }

  Result<void> write_config() const {
    const std::filesystem::path path = files_.directory() / "config.json";
    LOCKSTEP_TRY(const std::string text, read_text_file(path, kLargestConfig));
    Json config = Json::parse(text);  // read_spec has read it
    const Json weights{{"num_bits", format_.bits},
                       {"type", "int"},
                       {"symmetric", true},
                       {"strategy", "group"},
                       {"group_size", format_.group},
                       {"dynamic", false},
                       {"actorder", nullptr},
                       {"observer", "minmax"},
                       {"observer_kwargs", Json::object()},
                       {"block_structure", nullptr}};
    Json ignore = Json::array();
    for (const std::string& module : copy_.kept) ignore.push_back(module);
    // A head that is tied to the embeddings is not among the tensors, but other readers look for its module.
    if (std::ranges::count(copy_.kept, "lm_head") == 0) ignore.push_back("lm_head");
    config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                     {"format", "pack-quantized"},
                                     {"quantization_status", "compressed"},
                                     {"global_compression_ratio", nullptr},
                                     {"kv_cache_scheme", nullptr},
                                     {"config_groups",
                                      {{"group_0",
                                        {{"targets", {"Linear"}},
                                         {"weights", weights},
                                         {"input_activations", nullptr},
                                         {"output_activations", nullptr}}}}},
                                     {"ignore", std::move(ignore)}};
    return write_text_file(dst_ / "config.json", config.dump(2) + "\n");
  }

  const StoredFiles& files_;
  const std::filesystem::path dst_;
  const CopyOptions& options_;
  WeightFormat format_;
  std::set<std::string> modules_;
  std::vector<Item> items_;
  size_t written_ = 0;
  QuantisedCopy copy_;
};

/// Makes `dst`, or checks that it is an empty folder.
Result<void> make_folder(const std::filesystem::path& dst) {
  std::error_code failure;
  std::filesystem::create_directories(dst, failure);
  const bool is_empty = !failure && std::filesystem::is_empty(dst, failure);
  if (is_empty && !failure) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[runtime/checkpoint] cannot write a quantised checkpoint to {}: {}; choose another folder",
                           dst.string(),
                           failure ? failure.message() : std::string("found files, expected an empty or no folder"))};
}

}  // namespace

Result<QuantisedCopy> write_quantised_copy(const std::filesystem::path& src, const std::filesystem::path& dst,
                                           const CopyOptions& options) {
  LOCKSTEP_TRY(const ModelSpec spec, read_spec(src / "config.json"));
  if (gguf::is_gguf(src)) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/checkpoint] cannot quantise {}: found a GGUF file, expected a directory of "
                             "Hugging Face; take the original checkpoint, or run the file as it is",
                             src.string())};
  }
  if (spec.formats.any()) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[runtime/checkpoint] cannot quantise {}: found matrices in codes, expected elements; take "
                    "the original checkpoint",
                    src.string())};
  }
  LOCKSTEP_TRY(const auto files, StoredFiles::open(src));
  LOCKSTEP_TRY(const StoredTensors tensors, resolve_tensors(*files, spec));
  LOCKSTEP_TRY_VOID(make_folder(dst));
  return CopyWriter(*files, spec, dst, options).run(tensors);
}

}  // namespace lockstep::checkpoint
