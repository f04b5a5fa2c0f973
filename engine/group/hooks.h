// Hooks of the lockstep program into a group: exit records, injected faults, error texts. All are optional and
// given once. Library users have GroupOptions instead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/executor.h"
#include "runtime/core/result.h"
#include "runtime/device/backend.h"
#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"

namespace lockstep::group {

class State;

/// Access for other threads to a rank that runs steps, or is about to. Empty functions: it has no session.
struct RunningRank {
  std::function<actors::ExecutorStatus()> status;
  std::function<void()> cancel;  // ends the session on every rank
};

/// Whether processes watch each other. Off for tests, and for the doctor, which has its own detection.
enum class PeerDetection { kOn, kOff };

/// Whether ranks of several processes compare their programs when they meet, or only open MPI.
enum class Meeting { kAgreed, kBare };

/// Each is called on the thread of its event.
struct Hooks {
  std::function<void(State* group)> on_group;  // the group, before its ranks meet; null: it is about to end
  std::function<void(int rank, const char* phase)> on_phase;                    // a phase has begun; may throw
  std::function<void(int rank, const actors::ExecutorStatus& status)> on_step;  // a step is about to run; may throw
  /// The rank can be reached in its session, before any rank is ready; or no longer.
  std::function<void(int rank, const RunningRank& running)> on_running;
  /// A rank has read a part of a tensor, which may be changed. Called by several threads.
  std::function<void(int rank, const std::string& tensor, std::span<std::byte> read)> on_weights;
  /// A rank has loaded its weights; they lie there until it ends.
  std::function<void(int rank, const std::vector<device::ResidentWeight>& weights)> on_resident_weights;
  /// A rank's work has failed: returns the error to report. The first call of a rank records its end.
  std::function<Error(int rank, const Error& error)> settle;
  std::function<std::string(int rank)> activity;  // the rank's current activity, for other ranks' messages
  std::function<void()> on_lost;                  // another process has ended the group; the end is recorded

  // Wrap a rank's own objects.
  std::function<std::unique_ptr<transport::Bootstrap>(int rank, std::unique_ptr<transport::Bootstrap>)> bootstrap;
  std::function<std::unique_ptr<device::Communicator>(int rank, std::unique_ptr<device::Communicator>)> communicator;

  std::vector<std::pair<std::string, double>> phases_before;  // of the process, in seconds
  PeerDetection detection = PeerDetection::kOn;
  Meeting meeting = Meeting::kAgreed;
  bool shares_host = false;  // other groups use the cores that this one may not
};

}  // namespace lockstep::group
