// Names and layouts of weights in GGUF files. Private to this folder.
#pragma once

#include <string_view>

#include "runtime/checkpoint/stored_names.h"

namespace lockstep::checkpoint {

/// The names of a model type's weights in a GGUF file, and what llama.cpp's conversion changes in them.
FamilyNames names_in_gguf(std::string_view model_type);

}  // namespace lockstep::checkpoint
