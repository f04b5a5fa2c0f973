// A .bin file: a state dict of torch.save. Since torch 1.6 it is a zip archive of
//
//   ROOT/data.pkl    the tensors: unpickler.h      ROOT/byteorder   "little"; optional
//   ROOT/data/KEY    the bytes of the storages      other files are ignored
//
// and before that the format of old_torch_file.h. Tensors may share a storage (tied weights) and may be any strided
// view of it. Private to this folder.
#pragma once

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/core/byte_source.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// Reads the tensors of a .bin file. Fails with `kInvalidArgument` when it is damaged and with `kUnsupported` when it
/// is big-endian, compressed, or holds more than tensors and plain containers.
Result<TensorMap> read_torch_file(const ByteSource& file);

}  // namespace lockstep::checkpoint
