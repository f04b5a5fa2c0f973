// Which stage each rank has reached, by means that do not hang when a stage does: small datagrams that nobody waits
// for, a few times a second, from every rank to rank 0.
//
//   before MPI   an abstract Unix socket of this host, whose name follows from the job: ranks of rank 0's host are
//   heard after it     UDP to every address of rank 0's host, which a `Bootstrap` has told: ranks of other hosts, too
//
// A rank that is stopped or gone falls silent; one that waits is heard and says in which stage.
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

/// What is known of one rank.
struct RankSign {
  int stage = -1;     // the last that it began; −1: never heard
  TimePoint heard{};  // the last sign of life
  friend bool operator==(const RankSign&, const RankSign&) = default;
};

/// One line a rank that holds up stage `stage`: never heard, silent, or behind. `stages` are the stages' names. Pure.
std::vector<std::string> who_is_missing(const std::vector<RankSign>& signs, int stage,
                                        const std::vector<std::string>& stages, TimePoint now);

/// The table. Thread-safe.
class StageTable {
 public:
  StageTable(int size, const Clock& clock) : clock_(clock), signs_(static_cast<size_t>(size)) {}

  /// `rank` is alive and in `stage`; numbers that do not exist are ignored. Stages never go back.
  void note(int rank, int stage);
  std::vector<RankSign> signs() const;
  /// A group may turn out larger than the launcher said.
  void grow(int size);

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::vector<RankSign> signs_;
};

/// What all ranks of a job have in common and no other job has, as far as its launcher tells.
std::string job_name(const transport::LaunchEnvironment& place);

/// Carries one process's stage to rank 0, and those of the others into rank 0's board.
class StageBeacon {
 public:
  /// Opens what works before MPI; that nothing does is no error. The board is borrowed.
  StageBeacon(StageTable& board, int rank, const std::string& job);
  ~StageBeacon();
  StageBeacon(const StageBeacon&) = delete;
  StageBeacon& operator=(const StageBeacon&) = delete;

  /// This process has begun `stage`: said now and again.
  void say(int stage);

  /// Rank 0: listens on the network; what to tell the others. Empty when it cannot.
  std::string listen();
  /// Others: what rank 0's `listen` returned.
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

/// Starts a thread that takes no signals: those are for the thread that waits for them.
std::thread start_deaf_thread(std::function<void()> body);

}  // namespace lockstep::launcher
