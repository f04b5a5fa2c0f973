// The names that a pickle of a .bin file may use; there is no other. Private to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::checkpoint {

/// What may be called. The unpickler does what each of them does to plain values; nothing of Python runs.
enum class Callable : int64_t { kOrderedDict, kSize, kRebuildTensor, kRebuildParameter };

/// The callable of that name, if it is one of them.
std::optional<Callable> find_callable(std::string_view module, std::string_view name);

/// The element type of a storage class of torch, by its name in the safetensors format; empty for any other name.
std::string_view storage_dtype(std::string_view module, std::string_view name);

}  // namespace lockstep::checkpoint
