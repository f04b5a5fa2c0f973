// Runs one piece of work on every rank of this process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "engine/group/member.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/result.h"

namespace lockstep::group {

/// The work of one rank. An exception that it throws becomes the rank's error.
using RankWork = std::function<Result<void>(Member& member)>;

/// Used by one thread.
class RankThreads {
 public:
  /// Starts the work. A rank that fails alone ends the group; ranks that fail together (Member::all_succeeded,
  /// Member::agree) leave the group open. `group` lives until `join` has returned, or the object is destroyed.
  /// @collective
  RankThreads(State& group, RankWork work);
  /// Joins the threads; ends running work first.
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  /// Waits until all ranks of this process are done; returns the error of the first rank that failed. @blocking
  Result<void> join();

 private:
  void run(size_t index);
  Result<void> work_of(int rank, bool& failed_together);
  void end_threads();

  State& group_;
  const RankWork work_;
  AbortFlag abort_;
  std::vector<std::optional<Error>> errors_;  // [local ranks]
  std::mutex mutex_;                          // guards the two below
  std::condition_variable changed_;
  size_t running_ = 0;
  std::vector<std::thread> threads_;  // use the fields above
};

/// Runs `work` on every rank of the group. @collective @blocking
Result<void> on_each_rank(State& group, RankWork work);

}  // namespace lockstep::group
