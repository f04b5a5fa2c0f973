#include "tests/neuron_stand_in/nrt/core_claims.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/neuron_stand_in/nrt/report.h"

namespace lockstep::stand_in {

nrt::NRT_STATUS CoreClaims::claim(const std::filesystem::path& machine, std::span<const uint32_t> cores) {
  if (machine.empty()) return nrt::NRT_SUCCESS;
  std::error_code problem;
  std::filesystem::create_directories(machine, problem);
  for (const uint32_t core : cores) {
    const std::string path = (machine / fmt::format("core-{}.lock", core)).string();
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return refuse(nrt::NRT_FAILURE, fmt::format("cannot open {}", path));
    locks_.push_back(file);
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      release();
      return refuse(nrt::NRT_LOAD_NOT_ENOUGH_NC, fmt::format("core {} belongs to another process", core));
    }
  }
  return nrt::NRT_SUCCESS;
}

void CoreClaims::release() {
  for (const int lock : locks_) ::close(lock);
  locks_.clear();
}

}  // namespace lockstep::stand_in
