// The ranks of a job: how they connect, and how failures are reported.
//
//   Group::alone()      one rank; no MPI              Group::mpi()         the ranks of mpirun or srun; starts MPI
//   Group::threads(4)   four ranks in this process    Group::mpi(handle)   the ranks of the program's own communicator
//   Group::processes(4) four processes on this host, without MPI
//
//   Group::mpi({.ranks_per_replica = 2})                four groups of two, of the eight ranks of mpirun
//
// Every process opens groups, models and engines in the same order. Only rank 0 submits requests.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/log.h"
#include "runtime/core/result.h"

namespace lockstep {

namespace group {
class State;
}

/// An MPI communicator without mpi.h: `{MPI_Comm_c2f(communicator)}`. The group duplicates it.
struct MpiHandle {
  int fortran = 0;
};

/// Progress of work that takes long.
struct Progress {
  enum class Work {
    kLoading,  // bytes of rank 0's weights
    kPrefill,  // prompt tokens of the open requests
  };
  static constexpr std::array kWorks = {Work::kLoading, Work::kPrefill};

  Work work = Work::kLoading;
  int64_t done = 0;
  int64_t total = 1;

  bool is_over() const { return done == total; }
  friend bool operator==(const Progress&, const Progress&) = default;
};

/// What rank 0 knows of a rank beside its work.
struct RankPresence {
  std::string host;         // empty: not known
  Duration silence{};       // since its last sign of life; there is one every GroupOptions::silence / 16
  bool is_leaving = false;  // Group::announce_leave
};

/// Settings of a group. Functions may be empty.
struct GroupOptions {
  Duration start_deadline = std::chrono::seconds(30);  // until all ranks have met
  Duration deadline = std::chrono::seconds(60);        // of one wait between ranks
  Duration silence = std::chrono::seconds(8);          // a process without a message for this long is lost; zero: never
  std::string network;                                 // between hosts: a name, an address or a subnet; empty: chosen
  std::string mpi_library;                             // path of the library to load; empty: chosen
  std::filesystem::path read_ahead;  // a model whose files are read into memory while ranks meet; empty: none

  /// Receives the log lines of this process's ranks, numbered as the launch's, on any thread; empty: no log.
  std::function<void(int rank, LogLevel level, std::string_view line)> log;

  /// Called once, on any thread, when the group has failed. Every wait of the group ends with the same error.
  std::function<void(const Error& error)> on_failure;

  /// Called on a separate thread when a call of MPI or of a device's runtime does not return in time. The program can
  /// only end its process; without the function the library waits for the call.
  std::function<void(const Error& error)> on_stuck;

  /// Sets a variable of this process's environment that a library reads when it starts (MPI, a device's runtime).
  /// Without the function, a variable that a library requires is an error that names it.
  std::function<void(const std::string& name, const std::string& value)> set_environment;

  /// Called in rank 0's process by a separate thread, about ten times a second during the work. The last call for a
  /// work has `is_over`.
  std::function<void(const Progress& progress)> on_progress;

  /// The size of each of the groups that the ranks of a launcher form (the first `Group::mpi`); 0: all are one group.
  int ranks_per_replica = 0;
};

/// Thread-safe, but the thread that made the group calls the collective functions. The destructor never waits for
/// other ranks.
class Group {
 public:
  /// One rank.
  static Result<std::unique_ptr<Group>> alone(GroupOptions options = {});

  /// `ranks` ranks in this process. Fails with `kInvalidArgument` for fewer than one.
  static Result<std::unique_ptr<Group>> threads(int ranks, GroupOptions options = {});

  /// `ranks` processes on this host, without MPI: this process becomes rank 0 and starts the others, which run this
  /// program with the same arguments; in those the call joins the group. They end with rank 0. Fails with
  /// `kInvalidArgument` for fewer than one rank, with `kFailedPrecondition` under mpirun or srun, and with
  /// `kDeadlineExceeded` when ranks are missing. @collective @blocking
  static Result<std::unique_ptr<Group>> processes(int ranks, GroupOptions options = {});

  /// The ranks that mpirun or srun has started; one rank in a process without a launcher. With `ranks_per_replica` they
  /// form several groups ("replicas") of that many consecutive ranks, each with a rank 0, models and failures of its
  /// own: a lost replica ends no other. Fails with `kFailedPrecondition` for a launch that cannot work, naming the flag
  /// that corrects it, or if the replicas' ranks do not divide those of the launch, and with `kDeadlineExceeded` when
  /// ranks are missing. @collective @blocking
  static Result<std::unique_ptr<Group>> mpi(GroupOptions options = {});

  /// The ranks of the program's own communicator. The group uses MPI as the program initialised it and does not
  /// finalise it. With MPI_THREAD_MULTIPLE the program may call MPI at any time; with MPI_THREAD_SERIALIZED not while
  /// requests are open; with less, ranks work only while the thread that called this function is inside a blocking call
  /// of the library. @collective @blocking
  static Result<std::unique_ptr<Group>> mpi(MpiHandle communicator, GroupOptions options = {});

  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const;  // of this process; 0 where ranks are threads
  int size() const;
  bool leads() const { return rank() == 0; }
  int replica() const;   // the number of this group among those of its launch
  int replicas() const;  // 1: all ranks are one group
  /// "mpi (Open MPI 4.1.4, threads serialized)", "processes", "threads", "single".
  std::string name() const;

  /// Why the group has failed; empty while it works. Engines of a failed group serve no requests.
  std::optional<Error> failure() const;

  /// Of all ranks, by rank; on rank 0. Any thread.
  std::vector<RankPresence> presence() const;

  /// Tells rank 0 that this process will have to end before long, because its host is to be taken away. The group goes
  /// on; what rank 0 does about it is the program's. Any thread.
  void announce_leave();

  /// Fails the group: every wait on every rank ends with `error`.
  void fail(const Error& error);

  /// Shares the outcome of work that each process did separately: fails on every rank with the error of the first rank
  /// whose `mine` failed. @collective @blocking
  Result<void> all_succeeded(const Result<void>& mine);

  /// Compares `statement`, one fact a line, between processes: fails on every rank with `kFailedPrecondition` when a
  /// process's statement differs from rank 0's, naming the line; `what` names the subject. @collective @blocking
  Result<void> agree(std::string_view what, std::string_view statement);

  /// Rank 0's text, on every rank. @collective @blocking
  Result<std::string> broadcast(std::string_view text);

  /// The texts of all replicas' rank 0, by replica, on every rank. For the start: every rank of every replica calls it,
  /// and a lost replica fails it. @collective @blocking
  Result<std::vector<std::string>> exchange_with_replicas(std::string_view text);

  /// Leaves the group after all engines are closed. @collective @blocking
  Result<void> leave();

 private:
  friend class group::State;
  explicit Group(std::unique_ptr<group::State> state);
  std::unique_ptr<group::State> state_;
};

}  // namespace lockstep
