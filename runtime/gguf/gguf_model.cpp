#include "runtime/gguf/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/gguf/metadata.h"
#include "runtime/gguf/read_error.h"

namespace lockstep::gguf {
namespace {

constexpr int64_t kMostParts = 99999;  // five digits

/// The number of a part and how many there are; {0, 1} for a file that is not split.
struct PartNumber {
  int64_t index = 0;
  int64_t count = 1;
};

Result<PartNumber> part_of(const GgufHeader& header) {
  LOCKSTEP_TRY(const auto count, integer_of(header, "split.count"));
  LOCKSTEP_TRY(const auto index, integer_of(header, "split.no"));
  const PartNumber part{index.value_or(0), std::max<int64_t>(1, count.value_or(1))};
  if (part.index < 0 || part.index >= part.count || part.count > kMostParts) {
    return damaged(header.path, fmt::format("found part {} of {}, expected a number below it of at most {}", part.index,
                                            part.count, kMostParts));
  }
  return part;
}

/// "-00001-of-00003.gguf", counted from 0.
std::string ending(int64_t index, int64_t count) { return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count); }

}  // namespace

const TensorRecord* GgufModel::find_tensor(std::string_view name) const {
  for (const GgufHeader& part : parts) {
    if (const TensorRecord* tensor = part.find_tensor(name)) return tensor;
  }
  return nullptr;
}

bool is_gguf(const std::filesystem::path& path) {
  std::error_code failed;
  return path.extension() == ".gguf" && !std::filesystem::is_directory(path, failed);
}

Result<std::vector<std::filesystem::path>> files_of_model(const GgufHeader& first) {
  LOCKSTEP_TRY(const PartNumber part, part_of(first));
  if (part.count == 1) return std::vector{first.path};
  const std::string name = first.path.filename().string(), own = ending(part.index, part.count);
  if (part.index != 0 || !name.ends_with(own)) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/gguf] cannot read {}: found part {} of {}, expected the first with a name that "
                             "ends in {}; pass that file, with the others beside it",
                             first.path.string(), part.index + 1, part.count, ending(0, part.count))};
  }
  std::vector<std::filesystem::path> paths;
  for (int64_t i = 0; i < part.count; ++i) {
    paths.push_back(first.path.parent_path() / (name.substr(0, name.size() - own.size()) + ending(i, part.count)));
  }
  return paths;
}

Result<void> check_parts(const std::vector<GgufHeader>& parts) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < parts.size(); ++i) {
    LOCKSTEP_TRY(const PartNumber part, part_of(parts[i]));
    if (part.index != static_cast<int64_t>(i) || part.count != static_cast<int64_t>(parts.size())) {
      return damaged(parts[i].path, fmt::format("found part {} of {}, expected part {} of {}", part.index + 1,
                                                part.count, i + 1, parts.size()));
    }
    for (const TensorRecord& tensor : parts[i].tensors) {
      if (names.insert(tensor.name).second) continue;
      return damaged(parts[i].path, fmt::format("found tensor {} in two parts, expected it in one", tensor.name));
    }
  }
  LOCKSTEP_TRY(const auto expected, integer_of(parts.front(), "split.tensors.count"));
  if (!expected || *expected == static_cast<int64_t>(names.size())) return ok();
  return damaged(parts.front().path,
                 fmt::format("found {} tensors in {} parts, expected {}", names.size(), parts.size(), *expected));
}

Result<GgufModel> read_model(const std::filesystem::path& path) {
  GgufModel model;
  LOCKSTEP_TRY(GgufHeader first, read_header(path));
  LOCKSTEP_TRY(const auto paths, files_of_model(first));
  model.parts.push_back(std::move(first));
  for (size_t i = 1; i < paths.size(); ++i) {
    LOCKSTEP_TRY(GgufHeader part, read_header(paths[i]));
    model.parts.push_back(std::move(part));
  }
  LOCKSTEP_TRY_VOID(check_parts(model.parts));
  return model;
}

}  // namespace lockstep::gguf
