// The latest stage of each rank, reported to rank 0 by datagrams. They are sent a few times a second without waiting,
// so they do not hang when a stage does.
//
//   before MPI   an abstract Unix socket of this host, named after the job: ranks of rank 0's host
//   after it     UDP to every address of rank 0's host, sent by a `Bootstrap`: also ranks of other hosts
//
// A stopped or ended rank falls silent; a waiting rank still reports its stage.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/result.h"
#include "transport/launch_environment.h"

namespace lockstep::launcher {

/// The latest sign of one rank.
struct RankSign {
  int stage = -1;     // its latest stage; −1: no sign yet
  TimePoint heard{};  // time of the last sign of life
  friend bool operator==(const RankSign&, const RankSign&) = default;
};

/// One line per rank that delays stage `stage`: no sign, silent, or behind. `stages` are the stages' names. Pure.
std::vector<std::string> who_is_missing(const std::vector<RankSign>& signs, int stage,
                                        const std::vector<std::string>& stages, TimePoint now);

/// The latest signs of all ranks. Thread-safe.
class StageTable {
 public:
  StageTable(int size, const Clock& clock) : clock_(clock), signs_(static_cast<size_t>(size)) {}

  /// Records that `rank` is alive and in `stage`; ignores invalid numbers. Stages never decrease.
  void note(int rank, int stage);
  std::vector<RankSign> signs() const;
  /// Adds ranks, if the group is larger than the launcher's environment indicated.
  void grow(int size);

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::vector<RankSign> signs_;
};

/// A name that all ranks of a job share and no other job has, as far as the launcher identifies jobs.
std::string job_name(const transport::LaunchEnvironment& place);

/// Sends one process's stage to rank 0; on rank 0, receives the others' stages into its table.
class StageBeacon {
 public:
  /// Opens the channels that work before MPI; none is not an error. The table is borrowed.
  StageBeacon(StageTable& board, int rank, const std::string& job);
  ~StageBeacon();
  StageBeacon(const StageBeacon&) = delete;
  StageBeacon& operator=(const StageBeacon&) = delete;

  /// Sets this process's stage, which is sent repeatedly.
  void announce(int stage);

  /// Rank 0: listens on the network and returns the address text for the others. Empty if it cannot listen.
  std::string listen();
  /// Others: takes the text from rank 0's `listen`.
  void add_targets(const std::string& told);

 private:
  struct Sockets;

  void run();
  void send();
  void receive(int socket);

  StageTable& board_;
  const int rank_;
  std::atomic<int> stage_ = 0;
  std::atomic<bool> done_ = false;
  std::unique_ptr<Sockets> sockets_;
  std::thread thread_;
};

/// Starts a thread with all signals blocked, so that the signal thread receives them.
std::thread start_deaf_thread(std::function<void()> body);

}  // namespace lockstep::launcher
