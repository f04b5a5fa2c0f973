// Writes checkpoint files from tensors in memory: safetensors, and both formats of torch.save.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/core/shape.h"

namespace lockstep::model {

/// A named tensor and its bytes, row-major.
struct StoredTensor {
  std::string name;
  TensorType type;
  std::vector<std::byte> bytes;
  std::string stored_dtype = {};  // safetensors: another type than that of `type`, as "F8_E4M3"
};

/// Writes a safetensors file.
void write_safetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors);

/// Writes the format of `torch.save(state_dict, path)`: a zip archive without compression that holds a pickle (protocol
/// 2) of an OrderedDict of tensors, with the `_metadata` of a module's state dict, and one member per storage, aligned
/// to 64 bytes.
void write_torch_file(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors);

/// Writes the format of torch before 1.6 (`_use_new_zipfile_serialization=False`): five pickles and the storages.
void write_old_torch_file(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors);

}  // namespace lockstep::model
