#include "runtime/core/machine_memory.h"

#include <fstream>
#include <string>

namespace lockstep {

Bytes available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kibibytes = 0;
  for (std::string unit; file >> key >> kibibytes; std::getline(file, unit)) {
    if (key == "MemAvailable:") return Bytes(kibibytes * 1024);
  }
  return Bytes(0);
}

}  // namespace lockstep
