// The additions of a tree sum, divided by who can do them.
//
// An addition whose two sides come from ranks of one host alone is done on that host; the others are done between
// hosts, by every host alike. With four ranks of one leaf each on hosts a, a, b, b:
//
//        (r0 + r1)  +  (r2 + r3)          on a: the first pair; on b: the second; between hosts: what is left, of
//                                         which a brings one root and b one
//
// With hosts a, b, a, b no two roots meet on a host, and all four travel. Either way the additions are the same.
#pragma once

#include <vector>

#include "runtime/device/communicator.h"
#include "transport/two_level/hosts.h"

namespace lockstep::transport::two_level {

/// How one host takes part in a sum.
struct Levels {
  std::vector<TreeFinish> within;  // the sums that the host brings, over the roots of its ranks by their local numbers
  TreeFinish between;              // over what the hosts bring, host by host
  int most_roots = 1;              // of any rank or host: bounds scratch memory alike on all ranks
};

/// Divides `finish`, of the ranks of `hosts`, for `host`. Pure; `between` and `most_roots` are the same on every host.
Levels divide(const TreeFinish& finish, const Hosts& hosts, int host);

}  // namespace lockstep::transport::two_level
