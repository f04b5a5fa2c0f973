// The processes of this machine, as /proc lists them.
#pragma once

#include <sys/types.h>

#include <vector>

namespace lockstep::process {

struct ListedProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
};

/// The processes that have not ended.
std::vector<ListedProcess> list_processes();

}  // namespace lockstep::process
