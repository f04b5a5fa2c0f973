// Bindings of a rank's compute threads to cores.
//
//   cores of the ranks of a host            threads           bound
//   0 1 2 3 │ 4 5 6 7    each its own       4 │ 4             one thread a core
//   0 1 2 3 │ 4 5 6 7    set by launcher    2 │ 2             to 0 1 │ 4 5
//   0 1 2 3   0 1 2 3    the same           2 │ 2             to 0 1 │ 2 3: together they use all cores
//   0 1 2 3   0 1 2 3    the same           1 │ 1             no: another job may run on any of them
//   0 1 2     2 3        some shared        any               no
#pragma once

#include <sched.h>

#include <span>
#include <vector>

#include "engine/group/placement.h"

namespace lockstep::group {

/// The core of each compute thread of `rank`, or empty if its threads stay unbound: threads are bound only to cores
/// that no other rank uses. Pure.
std::vector<int> cores_of_threads(const Placement& placement, int rank);

/// Binds the calling thread to the first of `cores` while this object lives, then restores its previous cores. Does
/// nothing without cores or when the system refuses. Threads started meanwhile inherit the binding.
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
