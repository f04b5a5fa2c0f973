// A .bin file as torch.save wrote it before torch 1.6 (2020):
//
//   pickles of a magic number, a protocol, the writer's machine, what the tensors are (unpickler.h), the storages' keys
//   for each of these keys: its elements (64 bits), and their bytes
//
// Private to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/checkpoint/byte_source.h"
#include "runtime/checkpoint/unpickler.h"
#include "runtime/checkpoint/zip_directory.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

inline constexpr int64_t kLargestPickle = int64_t{64} << 20;  // bytes

/// Where the bytes of each storage lie, by its key.
using StoragePlaces = std::map<std::string, ZipEntry, std::less<>>;

/// The tensors of a .bin file and the storages that they are views of.
struct TorchContents {
  PickledTensors tensors;
  StoragePlaces storages;
};

/// Reads the pickles and the sizes of the storages. Fails as `read_torch_file`.
Result<TorchContents> read_old_torch_file(const ByteSource& file);

}  // namespace lockstep::checkpoint
