// Text for another program, in a file that only lives in memory.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/core/descriptor.h"

namespace lockstep {

enum class Inherited { kNo, kYes };  // by programs that this process starts or becomes

/// A file with these bytes. None: errno says why.
std::optional<Descriptor> make_memory_file(const char* name, std::string_view bytes, Inherited inherited);

/// The bytes of a file, whatever its position. None if it cannot be read.
std::optional<std::string> read_file(const Descriptor& file);

}  // namespace lockstep
