// Files that every input of an entry point needs.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "tests/temporary_directory.h"

namespace lockstep::fuzz {

/// The directory of this program, filled once by `write` and removed at its end.
inline const TemporaryDirectory& directory_of_all(void (*write)(const TemporaryDirectory& directory)) {
  static const TemporaryDirectory* made = nullptr;
  if (made == nullptr) {
    made = new TemporaryDirectory;
    write(*made);
    std::atexit([] { std::filesystem::remove_all(made->path()); });
  }
  return *made;
}

}  // namespace lockstep::fuzz
