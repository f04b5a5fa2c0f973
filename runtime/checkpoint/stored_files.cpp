#include "runtime/checkpoint/stored_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/safetensors_header.h"
#include "runtime/checkpoint/stored_type.h"
#include "runtime/checkpoint/torch_file.h"
#include "runtime/core/hash.h"
#include "runtime/gguf/gguf_model.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "weights are little-endian and read as they are");

constexpr int64_t kLargestIndex = int64_t{256} << 20;  // bytes

/// A storage format: a single file, or shards behind an index. The first existing one is used.
struct Format {
  const char* single;
  const char* index;
  Result<TensorMap> (*read_header)(const ByteSource& file);
};
constexpr Format kFormats[] = {{"model.safetensors", "model.safetensors.index.json", read_safetensors_header},
                               {"pytorch_model.bin", "pytorch_model.bin.index.json", read_torch_file}};

Error no_weights(const std::filesystem::path& directory) {
  std::string names;
  for (const Format& format : kFormats) {
    names += fmt::format("{}{}, {}", names.empty() ? "" : ", ", format.single, format.index);
  }
  return {ErrorKind::kNotFound, fmt::format("[runtime/checkpoint] cannot open the weights of {}: found none of {}, "
                                            "expected one of them; check the path, or convert the model to safetensors",
                                            directory.string(), names)};
}

}  // namespace

Result<std::unique_ptr<StoredFiles>> StoredFiles::open(const std::filesystem::path& directory) {
  std::unique_ptr<StoredFiles> files(new StoredFiles(directory));
  if (gguf::is_gguf(directory)) {
    LOCKSTEP_TRY_VOID(files->open_gguf());
    return files;
  }
  std::error_code ignored;
  for (const Format& format : kFormats) {
    if (std::filesystem::exists(directory / format.single, ignored)) {
      LOCKSTEP_TRY(files->tensors_, files->open_file(format.single, format.read_header));
      return files;
    }
    if (std::filesystem::exists(directory / format.index, ignored)) {
      LOCKSTEP_TRY_VOID(files->open_shards(directory / format.index, format.read_header));
      return files;
    }
  }
  return no_weights(directory);
}

bool StoredFiles::are_in(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::ranges::any_of(kFormats, [&](const Format& format) {
    return std::filesystem::exists(directory / format.single, ignored) ||
           std::filesystem::exists(directory / format.index, ignored);
  });
}

Result<TensorMap> StoredFiles::open_file(const std::string& name, HeaderReader read_header) {
  const std::filesystem::path path = directory_ / name;
  LOCKSTEP_TRY(auto file, RandomAccessFile::open(path));
  const RandomAccessFile& opened = *file;
  const auto read_opened = [this, &opened](int64_t offset, std::span<std::byte> dst) {
    return read(opened, offset, dst);
  };
  LOCKSTEP_TRY(TensorMap found, read_header({path, opened.size(), read_opened}));
  files_.emplace(path, std::move(file));
  return found;
}

/// The shards of an index: {"weight_map": {"tensor": "file", …}}. Tensors of a shard that are not in the map are
/// ignored.
Result<void> StoredFiles::open_shards(const std::filesystem::path& index, HeaderReader read_header) {
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
      auto found = open_file(shard, read_header);
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
    tensors_.emplace(name, entry->second);
  }
  return ok();
}

Result<gguf::GgufHeader> StoredFiles::open_gguf_part(const std::filesystem::path& path) {
  LOCKSTEP_TRY(auto file, RandomAccessFile::open(path));
  const RandomAccessFile& opened = *file;
  const auto read_opened = [this, &opened](int64_t offset, std::span<std::byte> dst) {
    return read(opened, offset, dst);
  };
  LOCKSTEP_TRY(gguf::GgufHeader header, gguf::read_header(ByteSource{path, opened.size(), read_opened}));
  files_.emplace(path, std::move(file));
  return header;
}

/// A GGUF file, or all parts of the split one of which it is the first.
Result<void> StoredFiles::open_gguf() {
  std::vector<gguf::GgufHeader> parts;
  LOCKSTEP_TRY(gguf::GgufHeader first, open_gguf_part(directory_));
  LOCKSTEP_TRY(const auto paths, gguf::files_of_model(first));
  parts.push_back(std::move(first));
  for (size_t i = 1; i < paths.size(); ++i) {
    LOCKSTEP_TRY(gguf::GgufHeader part, open_gguf_part(paths[i]));
    parts.push_back(std::move(part));
  }
  LOCKSTEP_TRY_VOID(gguf::check_parts(parts));
  for (const gguf::GgufHeader& part : parts) {
    for (const gguf::TensorRecord& tensor : part.tensors) {
      const StoredType* const type = find_stored_type(tensor.type->name);
      const bool is_readable = type != nullptr && type->readable.has_value();
      tensors_.emplace(tensor.name,
                       TensorEntry{.file = part.path,
                                   .type = {is_readable ? *type->readable : DType::kUInt8, Shape(tensor.shape)},
                                   .offset = tensor.offset,
                                   .bytes = tensor.bytes,
                                   .stored_dtype = std::string(tensor.type->name),
                                   .can_be_read = is_readable});
    }
  }
  return ok();
}

Result<void> StoredFiles::read(const RandomAccessFile& file, int64_t offset, std::span<std::byte> dst) const {
  LOCKSTEP_TRY_VOID(file.read(offset, dst));
  bytes_read_.fetch_add(static_cast<int64_t>(dst.size()), std::memory_order_relaxed);
  return ok();
}

int64_t StoredFiles::bytes_of_files() const {
  int64_t bytes = 0;
  for (const auto& [path, file] : files_) bytes += file->size();
  return bytes;
}

std::vector<const RandomAccessFile*> StoredFiles::files_on_disk() const {
  std::vector<const RandomAccessFile*> files;
  for (const auto& [path, file] : files_) {
    if (!file->was_cached()) files.push_back(file.get());
  }
  return files;
}

int64_t StoredFiles::place_of(const std::filesystem::path& path, int64_t offset) const {
  for (const auto& [before, file] : files_) {
    if (before == path) break;
    offset += file->size();
  }
  return offset;
}

uint64_t StoredFiles::fingerprint() const {
  Fingerprint print;
  for (const auto& [path, file] : files_) print.add(path.filename().string()).add(file->size());
  for (const auto& [name, entry] : tensors_) {
    print.add(name).add(entry.file.filename().string()).add(entry.stored_dtype).add(entry.offset);
    for (const auto& numbers : {entry.type.shape.dims(), entry.strides}) {
      print.add(static_cast<uint64_t>(numbers.size()));
      for (const int64_t number : numbers) print.add(number);
    }
  }
  return print.value();
}

}  // namespace lockstep::checkpoint
