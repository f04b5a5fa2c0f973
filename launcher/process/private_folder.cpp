#include "launcher/process/private_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>  // mkdtemp
#include <cstring>
#include <string>
#include <system_error>

namespace lockstep::launcher {

Result<PrivateFolder> PrivateFolder::make() {
  std::error_code failed;
  std::string pattern = (std::filesystem::temp_directory_path(failed) / "lockstep-XXXXXX").string();
  if (!failed && ::mkdtemp(pattern.data()) != nullptr) return PrivateFolder(pattern);
  return Error{
      ErrorKind::kUnavailable,
      fmt::format("[launcher] cannot make a folder for sockets: found '{}', expected a writable {}; set TMPDIR",
                  std::strerror(errno), pattern)};
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace lockstep::launcher
