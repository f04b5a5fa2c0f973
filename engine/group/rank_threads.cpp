#include "engine/group/rank_threads.h"

#include <utility>

#include "runtime/core/guard.h"

namespace lockstep::group {

RankThreads::RankThreads(State& group, RankWork work)
    : group_(group),
      work_(std::move(work)),
      errors_(static_cast<size_t>(group.local_ranks())),
      running_(errors_.size()) {
  group_.watch_flag(abort_);
  for (size_t index = 0; index < errors_.size(); ++index) threads_.emplace_back([this, index] { run(index); });
}

RankThreads::~RankThreads() {
  if (threads_.empty()) return;
  abort_.raise({ErrorKind::kCancelled, "[engine/group] the ranks' work was given up"});
  end_threads();
}

void RankThreads::end_threads() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  group_.forget_flag(abort_);
}

void RankThreads::run(size_t index) {
  const int rank = group_.first_rank() + static_cast<int>(index);
  bool failed_together = false;
  const Result<void> done = guarded("engine", [&] { return work_of(rank, failed_together); });
  if (!done.has_value() && failed_together) {
    errors_[index] = done.error();  // the other ranks end by themselves: they have the same error
  } else if (!done.has_value()) {
    errors_[index] = group_.fail(rank, done.error());
    abort_.raise(*errors_[index]);
  }
  // Under the lock: a waiting thread may destroy this object as soon as the lock is released.
  std::lock_guard lock(mutex_);
  --running_;
  changed_.notify_all();
}

Result<void> RankThreads::work_of(int rank, bool& failed_together) {
  LOCKSTEP_TRY(auto bootstrap, group_.make_bootstrap(rank, abort_));
  Member member(group_, rank, std::move(bootstrap), abort_);
  Result<void> done = work_(member);
  failed_together = member.failed_together();
  return done;
}

Result<void> RankThreads::join() {
  {
    std::unique_lock lock(mutex_);
    group_.wait(lock, changed_, [this] { return running_ == 0; });
  }
  end_threads();
  for (const auto& error : errors_) {
    if (error) return *error;
  }
  return ok();
}

Result<void> on_each_rank(State& group, RankWork work) { return RankThreads(group, std::move(work)).join(); }

}  // namespace lockstep::group
