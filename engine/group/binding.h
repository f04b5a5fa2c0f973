// Bindings of a rank's threads to cores: a core for each compute thread, or cores near the rank's device.
//
//   cores of the ranks of a host            threads           bound
//   0 1 2 3 │ 4 5 6 7    each its own       4 │ 4             one thread a core
//   0 1 2 3 │ 4 5 6 7    set by launcher    2 │ 2             to 0 1 │ 4 5
//   0 1 2 3   0 1 2 3    the same           2 │ 2             to 0 1 │ 2 3: together they use all cores
//   0 1 2 3   0 1 2 3    the same           1 │ 1             no: another job may run on any of them
//   0 1 2     2 3        some shared        any               no
//
//   cores near the ranks' devices        bound
//   0 1 2 3   0 1 2 3   4 5 6 7          0 1 │ 2 3 │ 4 5 6 7    of cores 0 to 7 that all ranks may use
#pragma once

#include <sched.h>

#include <span>
#include <vector>

#include "engine/group/placement.h"

namespace lockstep::group {

/// The hardware thread of each compute thread of `rank`, or empty if its threads stay unbound: threads are bound only
/// to cores that no other rank uses. Pure.
std::vector<int> cores_of_threads(const Placement& placement, int rank);

/// `placement` with the cores of each rank narrowed to those near its device, which `near` lists by rank (empty:
/// unknown). Ranks of a host divide the cores that several of them could use, each core to one rank, unless there are
/// fewer cores than ranks. A rank that the launcher bound elsewhere keeps its cores, and so do all where every core of
/// the host is near. Pure.
Placement near_devices(Placement placement, std::span<const std::vector<int>> near);

/// Ranks that the launcher bound away from their devices; at most one finding. Pure.
std::vector<Finding> judge_devices(const Placement& placement, std::span<const std::vector<int>> near);

/// Binds the calling thread to `hardware_threads` while this object lives, then restores its previous ones. Does
/// nothing without any or when the system refuses. Threads started meanwhile inherit the binding.
class BoundThread {
 public:
  explicit BoundThread(std::span<const int> hardware_threads);
  ~BoundThread();
  BoundThread(const BoundThread&) = delete;
  BoundThread& operator=(const BoundThread&) = delete;

 private:
  cpu_set_t before_;
  bool is_bound_ = false;
};

}  // namespace lockstep::group
