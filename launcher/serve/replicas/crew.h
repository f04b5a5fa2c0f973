// The ranks of one start of an engine.
#pragma once

#include <set>
#include <string>

namespace lockstep::serve {

struct Crew {
  int ranks = 0;                          // 0: as many as another launcher has started
  std::set<std::string> lost_hosts = {};  // where they are not to run

  friend bool operator==(const Crew&, const Crew&) = default;
};

}  // namespace lockstep::serve
