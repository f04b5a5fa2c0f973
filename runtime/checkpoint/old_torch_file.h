// The .bin format of torch.save before torch 1.6 (2020):
//
//   pickles of a magic number, a protocol, the writer's machine, the tensors (unpickler.h), the storages' keys
//   for each of these keys: its elements (64 bits), and their bytes
//
// Private to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/checkpoint/unpickler.h"
#include "runtime/checkpoint/zip_directory.h"
#include "runtime/core/byte_source.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

inline constexpr int64_t kLargestPickle = int64_t{64} << 20;  // bytes

/// The location of each storage's bytes, by its key.
using StoragePlaces = std::map<std::string, ZipEntry, std::less<>>;

/// The tensors of a .bin file and the underlying storages.
struct TorchContents {
  PickledTensors tensors;
  StoragePlaces storages;
};

/// Reads the pickles and the sizes of the storages. Fails as `read_torch_file` does.
Result<TorchContents> read_old_torch_file(const ByteSource& file);

}  // namespace lockstep::checkpoint
