// A whole session of ranks as threads of the test. All are in one actor system, or each in its own, connected over
// loopback TCP.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "actors/session.h"
#include "tests/actors/fake_engine.h"

namespace lockstep::actors {

/// A rank that runs in a thread of the test.
struct TestRank {
  TestRank(int number, FakeEngine::Options options, FakeGroup& group)
      : rank(number), engine(options, group, abort), result(Error{ErrorKind::kInternal, "did not run"}) {}
  ~TestRank() { join(); }

  void start(Session& session) {
    if (thread.joinable()) return;  // has been started
    thread = std::thread([this, &session] { result = session.run_executor(rank, engine); });
  }
  void join() {
    if (thread.joinable()) thread.join();
  }

  RankId rank;
  AbortFlag abort;
  FakeEngine engine;
  Result<void> result;
  std::thread thread;
};

inline const std::string kSecret(64, 's');

enum class Processes { kOne, kOnePerRank };

/// A whole session: all ranks in one actor system, or each in its own, connected over loopback TCP.
class TestSession {
 public:
  TestSession(int size, Processes processes, FakeEngine::Options engine = {}, SessionOptions options = {})
      : group_(size) {
    options.size = size;
    options.secret = kSecret;
    options.trace.schedule = [this](RankId rank, const Schedule& schedule) {
      std::lock_guard lock(mutex_);
      if (rank == RankId(0)) schedules_.push_back(schedule);
      for (int32_t step = 0; step < schedule.steps(); ++step) asked_.insert({rank.value, schedule.number, step});
    };
    options.trace.step = [this](RankId rank, const ExecutorStatus& status) {
      std::lock_guard lock(mutex_);
      if (!asked_.contains({rank.value, status.schedule, status.step})) ++unasked_;
      ++steps_;
    };
    for (int r = 0; r < size; ++r) {
      engine.rank = r;
      ranks_.push_back(std::make_unique<TestRank>(r, engine, group_));
    }
    if (processes == Processes::kOne) {
      for (auto& rank : ranks_) options.ranks.push_back({rank->rank, &rank->abort});
      sessions_.push_back(Session::host(options).value());
    } else {
      options.ranks = {{RankId(0), &ranks_[0]->abort}};
      sessions_.push_back(Session::host(options).value());
      for (int r = 1; r < size; ++r) {
        options.ranks = {{RankId(r), &ranks_[r]->abort}};
        sessions_.push_back(Session::join(options, sessions_[0]->address()).value());
      }
    }
  }
  ~TestSession() {
    for (auto& session : sessions_) {
      if (session) session->cancel();
    }
    join();
  }

  Session& client() { return *sessions_[0]; }
  TestRank& rank(int r) { return *ranks_[r]; }
  Session& session_of(int r) { return sessions_.size() == 1 ? *sessions_[0] : *sessions_[r]; }
  /// The process of rank `r` ends without notice.
  void lose(int r) { sessions_[r].reset(); }

  void start(int r) { rank(r).start(session_of(r)); }
  void start() {
    for (size_t r = 0; r < ranks_.size(); ++r) start(static_cast<int>(r));
  }
  void join() {
    for (auto& rank : ranks_) rank->join();
  }

  int steps() const { return steps_; }
  int unasked() const { return unasked_; }
  /// Those of rank 0, in their order. Read after the ranks have ended.
  const std::vector<Schedule>& schedules() const { return schedules_; }

 private:
  FakeGroup group_;
  std::mutex mutex_;
  std::set<std::tuple<int32_t, int32_t, int32_t>> asked_;  // (rank, schedule, step) of the received messages
  std::vector<Schedule> schedules_;
  int steps_ = 0;
  int unasked_ = 0;
  std::vector<std::unique_ptr<TestRank>> ranks_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

inline Request request(int64_t id, std::vector<int32_t> ids, int32_t new_tokens) {
  Request made{.id = RequestId(id), .ids = std::move(ids), .parameters = {}};
  made.parameters.max_new_tokens = new_tokens;
  return made;
}

inline std::vector<int32_t> prompt(int length, int seed) {
  std::vector<int32_t> ids;
  for (int i = 0; i < length; ++i) ids.push_back((seed * 37 + i * 11) % 100 + 100);
  return ids;
}

}  // namespace lockstep::actors
