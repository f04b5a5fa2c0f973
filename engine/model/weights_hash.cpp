// The hash of a model's weights: cheap, because it reads samples.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "lockstep/model.h"
#include "runtime/core/hash.h"
#include "runtime/gguf/gguf_model.h"

namespace lockstep {
namespace {

constexpr int64_t kSamples = 32;           // per weight file
constexpr int64_t kSampleBytes = 4096;     // per sample
constexpr int64_t kHeaderBytes = 1 << 16;  // at the beginning of a weight file

bool is_weights(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".safetensors") || (name.starts_with("pytorch_model") && name.ends_with(".bin"));
}

Error cannot_read(const std::filesystem::path& path) {
  return {ErrorKind::kNotFound,
          fmt::format("[engine/model] cannot read {}: found no readable file, expected weights; check its permissions, "
                      "or remove it if it is not part of the model",
                      path.string())};
}

Result<void> add_samples(const std::filesystem::path& path, Fingerprint& hash) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const int64_t size = file.tellg();
  if (size < 0) return cannot_read(path);
  std::string block;
  const auto take = [&](int64_t offset, int64_t bytes) {
    block.assign(static_cast<size_t>(std::min(bytes, size - offset)), ' ');
    file.seekg(offset);
    file.read(block.data(), std::ssize(block));
    hash.add(block);
  };
  hash.add(size);
  take(0, kHeaderBytes);
  for (int64_t i = 0; i < kSamples && size > kHeaderBytes; ++i) take(size / kSamples * i, kSampleBytes);
  return file ? Result<void>(ok()) : cannot_read(path);
}

}  // namespace

Result<std::string> Model::hash_of_weights() const {
  if (!directory()) return std::string("none");
  const std::filesystem::path& folder = *directory();
  std::vector<std::filesystem::path> files;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (is_weights(entry.path())) files.push_back(entry.path());
  }
  if (gguf::is_gguf(folder)) {
    LOCKSTEP_TRY(const gguf::GgufModel model, gguf::read_model(folder));
    for (const gguf::GgufHeader& part : model.parts) files.push_back(part.path);
  }
  std::ranges::sort(files);
  Fingerprint hash;
  for (const std::filesystem::path& file : files) LOCKSTEP_TRY_VOID(add_samples(file, hash));
  return fmt::format("{:016x} of {} files", hash.value(), files.size());
}

}  // namespace lockstep
