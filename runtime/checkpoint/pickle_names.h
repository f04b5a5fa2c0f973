// The complete list of names allowed in a pickle of a .bin file. Private to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::checkpoint {

/// The allowed callables. The unpickler imitates their effect on plain values; no Python code runs.
enum class Callable : int64_t { kOrderedDict, kSize, kRebuildTensor, kRebuildParameter };

/// The callable with this name, if it is allowed.
std::optional<Callable> find_callable(std::string_view module, std::string_view name);

/// The element type of a torch storage class, in the safetensors format's notation; empty for any other name.
std::string_view storage_dtype(std::string_view module, std::string_view name);

}  // namespace lockstep::checkpoint
