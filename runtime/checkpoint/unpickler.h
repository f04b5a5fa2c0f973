// Reads the pickles of torch state dicts without executing code.
//
// A pickle is a program for a stack machine that may call any Python function. This machine supports only the
// operations for plain values (numbers, text, None, tuples, lists, dicts) and six callables, none of which executes
// code: collections.OrderedDict, torch.Size, torch._utils._rebuild_tensor, _rebuild_tensor_v2 and _rebuild_parameter,
// and the storage types torch.FloatStorage … as names. Any other name, call or operation is rejected. Private to this
// folder.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/pickle_machine.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

using PickledTensors = std::map<std::string, PickledTensor, std::less<>>;

/// The tensors of a pickled dict by key; other contents are ignored. `origin` names the pickle in messages. Fails with
/// `kUnsupported` naming a name, call or operation that is not accepted, and with `kInvalidArgument` for a pickle that
/// is damaged or not a dict. Memory is at most a constant times the pickle's size.
Result<PickledTensors> unpickle_tensors(std::span<const std::byte> pickle, std::string_view origin);

/// A storage after the pickles of a file from torch before 1.6.
struct PickledStorage {
  std::string key;
  std::string_view dtype;  // as in a tensor
  int64_t elements = 0;
};

/// The contents of such a file before its storages.
struct OldTorchPickles {
  PickledTensors tensors;
  std::vector<PickledStorage> storages;  // in their order
  int64_t bytes = 0;                     // of the pickles
};

/// Reads the five pickles at the start of such a file: magic number, protocol, properties of the writing machine, dict,
/// keys of the storages. `start` may end anywhere after them. Fails as `unpickle_tensors` does.
Result<OldTorchPickles> unpickle_old_file(std::span<const std::byte> start, std::string_view origin);

}  // namespace lockstep::checkpoint
