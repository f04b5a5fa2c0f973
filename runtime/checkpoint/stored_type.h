// The element types of weight files, in the safetensors format's notation. Private to this folder.
#pragma once

#include <optional>
#include <string_view>

#include "runtime/core/dtype.h"

namespace lockstep::checkpoint {

/// One type of a file.
struct StoredType {
  std::string_view name;                         // "BF16"
  int bits;                                      // of an element
  std::optional<DType> readable = std::nullopt;  // the type for reading, if supported
};

/// The type `name`; nullptr if there is none.
const StoredType* find_stored_type(std::string_view name);

}  // namespace lockstep::checkpoint
