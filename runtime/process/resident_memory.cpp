#include "runtime/process/resident_memory.h"

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace lockstep::process {
namespace {

Bytes line_of_status(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(name)) continue;
    int64_t kib = 0;
    std::istringstream(line.substr(name.size())) >> kib;
    return Bytes(kib * 1024);
  }
  return Bytes(0);
}

}  // namespace

Bytes resident_memory() { return line_of_status("VmRSS:"); }

Bytes peak_resident_memory() { return line_of_status("VmHWM:"); }

}  // namespace lockstep::process
