// Reads the pickle of a torch state dict without running any of it.
//
// A pickle is a program for a stack machine that may call any function of Python. This machine knows the operations
// that make plain values (numbers, text, None, tuples, lists, dicts) and five callables, none of which runs code:
// collections.OrderedDict, torch.Size, torch._utils._rebuild_tensor_v2 and _rebuild_parameter, and the storage types
// torch.FloatStorage … as names. Any other name, call or operation is refused. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// A tensor as a pickle describes it: a strided view of a storage that lies beside the pickle.
struct PickledTensor {
  std::string storage;           // its key: the file data/<key> of the archive
  std::string_view dtype;        // by its name in the safetensors format
  int64_t storage_elements = 0;  // of the whole storage
  int64_t first = 0;             // element of the storage
  std::vector<int64_t> shape;    // at most 8 dimensions, none negative
  std::vector<int64_t> strides;  // in elements, none negative
};

using PickledTensors = std::map<std::string, PickledTensor, std::less<>>;

/// The tensors of a pickled dict by key; what else it holds is read and dropped. `origin` names the pickle in messages.
/// Fails with `kUnsupported` for a name, call or operation that is not accepted (the message says which) and with
/// `kInvalidArgument` for a pickle that is damaged or not of a dict. Needs memory of a constant times the pickle's
/// size.
Result<PickledTensors> unpickle_tensors(std::span<const std::byte> pickle, std::string_view origin);

}  // namespace lockstep::checkpoint
