// The replicas of one model: groups of ranks, each with its own engine, which share the requests (LastingEngine).
//
//   start ─► replica 0, 1, …  all serve ─► ready        one is lost: the others go on with its requests meanwhile
//                                                       all are over: there is no engine any more
//
// Replicas that another launcher has started are found through the first one's engine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/replicas/replica.h"

namespace lockstep::serve {

/// On the loop's thread, neither copied nor moved. Destroyed before the engine and the loop.
class Replicas {
 public:
  /// Called on the loop's thread. Of several ends one is reported: the first failure, if there was one.
  struct Events {
    std::function<void()> on_ready;                  // all serve, for the first time
    std::function<void(size_t replica)> on_serving;  // one serves again
    /// One is lost. `again`: requests will be answered, by another one or after another start.
    std::function<void(size_t replica, const Error&, bool again)> on_lost;
    std::function<void(const Error&)> on_over;             // requests will not be answered any more
    std::function<void(const Result<void>&)> on_finished;  // after `finish`
  };

  Replicas(const ReplicaParts& parts, Events events);

  /// Fails when no engine can be started here at all.
  Result<void> start();
  /// Gives each replica another number of ranks, or new ranks (Replica::change_ranks), one replica after the other.
  /// Returns whether there is anything to change; `done` is called once at the end. Fails with `kFailedPrecondition`,
  /// without a call, as Replica::check_change.
  Result<bool> change_ranks(std::optional<int> ranks, Replica::OnChanged done);
  void note_presence(size_t replica, const std::vector<RankPresence>& ranks) {
    replicas_[replica]->note_presence(ranks);
  }
  void note_silent(size_t replica) { replicas_[replica]->note_silent(); }
  /// Ends all engines that are this program's.
  void finish();
  /// Waits until no process is left. @blocking
  void close();

  struct State {
    int restarts = 0;                     // of all ranks of a replica
    std::optional<int> changing_to = {};  // ranks
    std::string change_failure = {};      // of the last change of their number; empty: none, or it has succeeded
    std::vector<std::string_view> replicas = {};  // "starting", "serving", "recovering", "over"
  };
  State state() const;

 private:
  void add(std::optional<EngineAddress> address);
  void on_serving(size_t replica);
  void on_lost(size_t replica, const Error& error, bool again);
  void on_over(size_t replica, const Error& error);
  void on_finished(const Result<void>& result);
  void change_next(size_t replica);
  Result<void> find_others();

  struct Change {
    std::optional<int> ranks = {};  // none: new ones, as many as before
    Replica::OnChanged done;
  };

  const ReplicaParts parts_;
  const Events events_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::optional<Change> change_;
  std::string change_failure_;
  bool is_ready_ = false;       // all have served
  size_t unfinished_ = 0;       // after `finish`
  Result<void> result_ = ok();  // of the finished ones
};

}  // namespace lockstep::serve
