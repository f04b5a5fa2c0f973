// The ranks that run models together: how a process joins them, and how it learns that one is lost.
//
//   Group::alone()      one rank; no MPI              Group::mpi()         the ranks of mpirun or srun; starts MPI
//   Group::threads(4)   four ranks in this process    Group::mpi(handle)   the ranks of a communicator of the program's
//
// Groups, models and engines are opened by every process in the same order. Rank 0 leads: it alone submits requests.
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

#include "runtime/core/clock.h"
#include "runtime/core/log.h"
#include "runtime/core/result.h"

namespace lockstep {

namespace group {
class State;
}

/// An MPI communicator without mpi.h: `{MPI_Comm_c2f(communicator)}`. It is duplicated; the program keeps its own.
struct MpiHandle {
  int fortran = 0;
};

/// Progress of work that takes long.
struct Progress {
  enum class Work {
    kLoading,  // weights of rank 0, in bytes
    kPrefill,  // prompts of the requests that are open, in tokens
  };
  static constexpr std::array kWorks = {Work::kLoading, Work::kPrefill};

  Work work = Work::kLoading;
  int64_t done = 0;
  int64_t total = 1;

  bool is_over() const { return done == total; }
  friend bool operator==(const Progress&, const Progress&) = default;
};

/// Functions may be empty.
struct GroupOptions {
  Duration start_deadline = std::chrono::seconds(30);  // until all ranks have met
  Duration deadline = std::chrono::seconds(60);        // of one wait between ranks
  Duration silence = std::chrono::seconds(8);          // a process that is silent for this long is lost; zero: never
  std::string network;                                 // between hosts: a name, an address or a subnet; empty: chosen
  std::string mpi_library;                             // path of the library to load; empty: chosen
  std::filesystem::path read_ahead;  // a model whose files are brought into memory while ranks meet; empty: none

  /// Receives what ranks of this process have to say. Any thread; empty: nothing is said.
  std::function<void(int rank, LogLevel level, std::string_view line)> log;

  /// Called once, on any thread, when the group has failed. Every wait of the group ends with the same error.
  std::function<void(const Error& error)> on_failure;

  /// Called when a call of MPI or of a device's runtime does not return in time, on a thread of its own. A program can
  /// only end its process here; without the function the call is waited for.
  std::function<void(const Error& error)> on_stuck;

  /// Sets a variable of this process's environment that a library reads when it starts (MPI, a device's runtime).
  /// Without the function, variables that a library cannot do without are an error that names them.
  std::function<void(const std::string& name, const std::string& value)> set_environment;

  /// Called in rank 0's process by a separate thread, about ten times a second while such work lasts. The last call for
  /// a work has `is_over`.
  std::function<void(const Progress& progress)> on_progress;
};

/// Thread-safe; the collective functions are called by the thread that made the group. The destructor never waits for
/// other ranks.
class Group {
 public:
  /// One rank.
  static Result<std::unique_ptr<Group>> alone(GroupOptions options = {});

  /// `ranks` ranks in this process. Fails with `kInvalidArgument` for fewer than one.
  static Result<std::unique_ptr<Group>> threads(int ranks, GroupOptions options = {});

  /// The ranks that mpirun or srun has started; one rank where this process was started alone. Fails with
  /// `kFailedPrecondition` for a launch that cannot work, naming the flag that mends it, and with `kDeadlineExceeded`
  /// when ranks are missing. @collective @blocking
  static Result<std::unique_ptr<Group>> mpi(GroupOptions options = {});

  /// The ranks of a communicator of the program's. MPI is initialised and is not finalised here. With
  /// MPI_THREAD_MULTIPLE the program may call MPI at any time; with MPI_THREAD_SERIALIZED not while requests are open;
  /// with less, ranks work only while the thread that called this function is inside a blocking call of the library.
  /// @collective @blocking
  static Result<std::unique_ptr<Group>> mpi(MpiHandle communicator, GroupOptions options = {});

  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const;  // of this process; 0 where ranks are threads
  int size() const;
  bool leads() const { return rank() == 0; }
  /// "mpi (Open MPI 4.1.4, threads serialized)", "threads", "single".
  std::string name() const;

  /// Why the group has failed; empty while it works. Its engines serve nothing any more.
  std::optional<Error> failure() const;

  /// Ends every wait of the group, on all ranks, with `error`.
  void fail(const Error& error);

  /// What each process has done by itself: fails on every rank with the error of the first rank whose `mine` failed.
  /// @collective @blocking
  Result<void> all_succeeded(const Result<void>& mine);

  /// Compares what processes were started with: fails on every rank with `kFailedPrecondition` where a `statement`, one
  /// fact a line, is not rank 0's, naming the line; `what` says what is compared. @collective @blocking
  Result<void> agree(std::string_view what, std::string_view statement);

  /// Rank 0's text, on every rank. @collective @blocking
  Result<std::string> broadcast(std::string_view text);

  /// Leaves in good order, when all engines are closed. @collective @blocking
  Result<void> leave();

 private:
  friend class group::State;
  explicit Group(std::unique_ptr<group::State> state);
  std::unique_ptr<group::State> state_;
};

}  // namespace lockstep
