// The element types that weight files hold, by the names of the safetensors format. Private to this folder.
#pragma once

#include <optional>
#include <string_view>

#include "runtime/core/dtype.h"

namespace lockstep::checkpoint {

/// One type of a file.
struct StoredType {
  std::string_view name;                         // "BF16"
  int bits;                                      // of an element
  std::optional<DType> readable = std::nullopt;  // what it is to us, if we read it
};

/// The type called `name`; nullptr if there is none.
const StoredType* find_stored_type(std::string_view name);

}  // namespace lockstep::checkpoint
