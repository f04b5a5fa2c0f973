// What the program lockstep adds to a group: records of how ranks end, faults on purpose, its own words in errors. All
// optional, given once. A library user has GroupOptions instead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/executor.h"
#include "runtime/core/result.h"
#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"

namespace lockstep::group {

class State;

/// A rank that runs steps, for other threads. Empty functions: it runs none.
struct RunningRank {
  std::function<actors::ExecutorStatus()> status;
  std::function<void()> cancel;  // ends the session on every rank
};

/// Whether processes watch each other. Off for tests, and for the doctor, which looks for itself.
enum class PeerDetection { kOn, kOff };

/// Whether ranks of several processes compare their programs when they meet, or only MPI's group is opened.
enum class Meeting { kAgreed, kBare };

/// Called on the thread where it happens.
struct Hooks {
  std::function<void(State* group)> on_group;  // the group, before its ranks meet; null: it is about to end
  std::function<void(int rank, const char* phase)> on_phase;                    // a phase has begun; may throw
  std::function<void(int rank, const actors::ExecutorStatus& status)> on_step;  // a step is about to run; may throw
  std::function<void(int rank, const RunningRank& running)> on_running;         // steps begin, or have ended
  /// A rank's work has failed: what is to be said instead. The first call of a rank settles its end.
  std::function<Error(int rank, const Error& error)> settle;
  std::function<std::string(int rank)> activity;  // what the rank is doing, for other ranks' messages
  std::function<void()> on_lost;                  // another process has ended the group, which is settled

  // What is put around a rank's own.
  std::function<std::unique_ptr<transport::Bootstrap>(int rank, std::unique_ptr<transport::Bootstrap>)> bootstrap;
  std::function<std::unique_ptr<device::Communicator>(int rank, std::unique_ptr<device::Communicator>)> communicator;

  std::vector<std::pair<std::string, double>> phases_before;  // of the process, in seconds
  PeerDetection detection = PeerDetection::kOn;
  Meeting meeting = Meeting::kAgreed;
};

}  // namespace lockstep::group
