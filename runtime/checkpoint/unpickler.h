// Reads the pickles of torch state dicts without running any of them.
//
// A pickle is a program for a stack machine that may call any function of Python. This machine knows the operations
// that make plain values (numbers, text, None, tuples, lists, dicts) and six callables, none of which runs code:
// collections.OrderedDict, torch.Size, torch._utils._rebuild_tensor, _rebuild_tensor_v2 and _rebuild_parameter, and the
// storage types torch.FloatStorage … as names. Any other name, call or operation is refused. Private to this folder.
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

/// The tensors of a pickled dict by key; what else it holds is read and dropped. `origin` names the pickle in messages.
/// Fails with `kUnsupported` for a name, call or operation that is not accepted (the message says which) and with
/// `kInvalidArgument` for a pickle that is damaged or not of a dict. Needs memory of a constant times the pickle's
/// size.
Result<PickledTensors> unpickle_tensors(std::span<const std::byte> pickle, std::string_view origin);

/// A storage that follows the pickles of a file from before torch 1.6.
struct PickledStorage {
  std::string key;
  std::string_view dtype;  // as of a tensor
  int64_t elements = 0;
};

/// What such a file says before its storages.
struct OldTorchPickles {
  PickledTensors tensors;
  std::vector<PickledStorage> storages;  // in their order
  int64_t bytes = 0;                     // of the pickles
};

/// The five pickles that such a file begins with: a magic number, the protocol, facts of the machine that wrote it, the
/// dict, the keys of its storages. `start` may end anywhere behind them. Fails as `unpickle_tensors`.
Result<OldTorchPickles> unpickle_old_file(std::span<const std::byte> start, std::string_view origin);

}  // namespace lockstep::checkpoint
