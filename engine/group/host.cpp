#include "engine/group/host.h"

#include <unistd.h>

namespace lockstep::group {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

}  // namespace lockstep::group
