#include "launcher/process/sibling_program.h"

#include <system_error>

namespace lockstep::launcher {

std::filesystem::path sibling_program(std::string_view name) {
  std::error_code failed;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? std::filesystem::path() : own.parent_path() / name;
}

}  // namespace lockstep::launcher
