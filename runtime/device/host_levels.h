// The additions of a tree sum, divided between hosts.
//
// An addition of two values from one host is done on that host; all other additions are done between hosts, identically
// on every host. With four ranks of one leaf each on hosts a, a, b, b:
//
//        (r0 + r1)  +  (r2 + r3)          on a: the first pair; on b: the second; between hosts: the rest, with
//                                         one root from a and one from b
//
// With hosts a, b, a, b no addition is local, and all four roots are sent. The additions are the same in both cases.
#pragma once

#include <vector>

#include "runtime/core/block_tree.h"
#include "runtime/device/hosts.h"

namespace lockstep::device {

/// One host's part of a sum.
struct HostLevels {
  std::vector<TreeFinish> within;  // the host's sums, over the roots of its ranks by their local numbers
  TreeFinish between;              // over the sums of all hosts, host by host
  int most_roots = 1;              // of any rank or host; bounds scratch memory, the same on all ranks
};

/// Divides `finish`, of the ranks of `hosts`, for `host`. Pure; `between` and `most_roots` are the same on every host.
HostLevels divide_between_hosts(const TreeFinish& finish, const Hosts& hosts, int host);

}  // namespace lockstep::device
