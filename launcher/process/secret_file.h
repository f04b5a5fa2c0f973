// The file with an engine's secret.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/core/atomic_file.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Its text without line ends behind it. Fails like `read_text_file`, naming --secret-file.
inline Result<std::string> read_secret(const std::filesystem::path& path) {
  LOCKSTEP_TRY(std::string secret, read_text_file(path, "--secret-file"));
  while (secret.ends_with('\n')) secret.pop_back();
  return secret;
}

}  // namespace lockstep::launcher
