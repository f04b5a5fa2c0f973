// A .bin file: a state dict as torch.save writes it since torch 1.6, a zip archive of
//
//   ROOT/data.pkl    what the tensors are: unpickler.h       ROOT/byteorder   "little", if it is there
//   ROOT/data/KEY    the storages, as they are               other files, of no use here
//
// or, before that, as old_torch_file.h says. Tensors may share a storage (tied weights) and may be any strided view of
// it. Private to this folder.
#pragma once

#include "runtime/checkpoint/byte_source.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// The tensors of a .bin file. Fails with `kInvalidArgument` when it is damaged and with `kUnsupported` when it is
/// big-endian, compressed, or holds more than tensors and plain containers.
Result<TensorMap> read_torch_file(const ByteSource& file);

}  // namespace lockstep::checkpoint
