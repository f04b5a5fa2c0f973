// Which core each compute thread of a rank is bound to, and the binding itself.
//
//   cores of the ranks of a host            threads           bound
//   0 1 2 3 │ 4 5 6 7    each its own       4 │ 4             one thread a core
//   0 1 2 3 │ 4 5 6 7    by the launcher    2 │ 2             to 0 1 │ 4 5
//   0 1 2 3   0 1 2 3    the same           2 │ 2             to 0 1 │ 2 3: together they take all
//   0 1 2 3   0 1 2 3    the same           1 │ 1             no: another job may sit on any of them
//   0 1 2     2 3        some in common     any               no
#pragma once

#include <sched.h>

#include <span>
#include <vector>

#include "engine/group/placement.h"

namespace lockstep::group {

/// The core of each compute thread of `rank`, or empty where its threads should stay free: only cores that are this
/// rank's alone are bound to. Pure.
std::vector<int> cores_of_threads(const Placement& placement, int rank);

/// Binds the calling thread to the first of `cores` for as long as this lives, unless there is none or the system
/// refuses, and then gives it back the cores that it had. Threads that are started meanwhile inherit the binding.
class BoundThread {
 public:
  explicit BoundThread(std::span<const int> cores);
  ~BoundThread();
  BoundThread(const BoundThread&) = delete;
  BoundThread& operator=(const BoundThread&) = delete;

 private:
  cpu_set_t before_;
  bool is_bound_ = false;
};

}  // namespace lockstep::group
