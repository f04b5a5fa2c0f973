// Keeps the engine of one replica behind the server: starts its processes, connects, and starts them again when they
// are lost.
//
//   start ─► processes ─► connection ─► LastingEngine      lost ─► the rest is ended ─► start, or over (recovery.h)
//
// Another number of ranks: the new ones load beside the old ones, then take over. Without the memory for both, or where
// the old ones are lost meanwhile, the new ones start after the end of the old ones. Ranks that announce their leave
// are done without in the same way, before they go.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/serve/engine/lasting_engine.h"
#include "launcher/serve/engine/rpc_engine.h"
#include "launcher/serve/http/event_loop.h"
#include "launcher/serve/replicas/degree.h"
#include "launcher/serve/replicas/departures.h"
#include "launcher/serve/replicas/engine_process.h"
#include "launcher/serve/replicas/recovery.h"
#include "launcher/serve/replicas/replica_options.h"
#include "launcher/serve/replicas/start_records.h"
#include "runtime/core/log.h"

namespace lockstep::serve {

/// What all replicas share. Everything is borrowed.
struct ReplicaParts {
  const ReplicaOptions& options;
  const process::EnvironmentMap& environment;  // of the engines' commands
  EventLoop& loop;
  LastingEngine& engine;
  const Log& log;
};

/// On the loop's thread, neither copied nor moved.
class Replica {
 public:
  /// What happens to its engine; called on the loop's thread.
  struct Events {
    std::function<void()> on_serving;                       // requests are answered, for the first time or again
    std::function<void(const Error&, bool again)> on_lost;  // another start may follow, or `on_over` does
    std::function<void(const Error&)> on_over;              // there will be no engine any more
    std::function<void(const Result<void>&)> on_finished;   // after `finish`: how it has ended
  };
  /// Called with the reason of a failure; empty: the new ranks serve.
  using OnChanged = std::function<void(const std::string& failure)>;

  /// `number`: its place in the engine. `address`: of an engine that this program does not start; none: the options
  /// say how it is started, or where it is.
  Replica(const ReplicaParts& parts, size_t number, std::optional<EngineAddress> address, Events events);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  /// Fails when no engine can be started here at all.
  Result<void> start();
  /// Whether its number of ranks can be changed now. Fails with `kFailedPrecondition`: before the engine serves, during
  /// another change, and where the ranks are not this program's.
  Result<void> check_change() const;
  /// Begins to serve with another number of ranks; `done` is called once, at once where so many serve already. Without
  /// a number it starts new ranks, as many as are wanted, from the program's file as it is then.
  void change_ranks(std::optional<int> ranks, OnChanged done);
  /// What the engine knows of its ranks, now and then.
  void note_presence(const std::vector<RankPresence>& ranks);
  /// The engine has not answered for `ReplicaOptions::silence_s`.
  void note_silent();
  /// Ends the engine, unless it is not this program's.
  void finish();
  /// Waits until no process of the engine is left. @blocking
  void close();

  bool serves() const { return recovery_.state() == Recovery::State::kServing; }
  bool is_over() const { return recovery_.state() == Recovery::State::kOver; }
  int restarts() const { return recovery_.restarts(); }
  /// The number of ranks that it changes to; none: no change is under way.
  std::optional<int> changing_to() const { return change_ ? std::optional(degree_.next().ranks) : std::nullopt; }

 private:
  /// Processes and the connection to them.
  struct Group {
    Crew crew;
    std::unique_ptr<StartRecords> records;   // outlive the processes; null: none, or in a folder with those of others
    std::unique_ptr<EngineProcess> process;  // null: the engine is not this program's
    std::unique_ptr<Connection> connection;
  };
  /// A change to the ranks of `degree_.next()`.
  struct Change {
    bool grows = false;   // back to the number before a loss, which may fail
    OnChanged done = {};  // of one that was asked for
  };

  bool is_own() const { return !address_ && !parts_.options.engine.empty(); }
  /// Whether it is a further replica of a launch whose first one is this program's.
  bool of_own_launch() const { return address_ && !parts_.options.engine.empty(); }
  /// Whether mpirun or srun has started this process as rank 0, and the other ranks.
  bool of_another_launcher() const { return parts_.options.ranks == 0; }
  Result<EngineAddress> address() const;
  std::vector<int> hardware_threads() const;
  Result<std::unique_ptr<Group>> begin(const Crew& crew);
  void on_connected(Group* group, Result<std::unique_ptr<Engine>>& engine);
  void serve_first(Result<std::unique_ptr<Engine>>& engine);
  void take_over(Result<std::unique_ptr<Engine>>& engine);
  void on_disconnected(const Group* group, const Error& error);
  void on_gone(Group* group, const Result<void>& result);
  void start_after(const Result<void>& result);
  void lose(const Error& error);
  void shrink_after_loss(bool shrinks);
  void start_again();
  void give_up(const Error& error);
  void end_finish();
  void prepare_change(Change change);
  void begin_change(bool has_room);
  void replace();
  void end_change(const std::string& failure);
  void note_serving();
  void retire(std::unique_ptr<Group> group);
  void watch_size();
  std::string log_prefix() const;

  const ReplicaParts parts_;
  const size_t number_;
  const std::optional<EngineAddress> address_;
  const Events events_;
  Recovery recovery_;
  Degree degree_;
  Departures departures_;
  ReplicaRecords records_;
  std::optional<Departure> leaving_;           // that was acted on
  std::unique_ptr<Group> group_;               // null: between two starts
  std::unique_ptr<Group> next_;                // loads beside it
  std::list<std::unique_ptr<Group>> retired_;  // end
  std::optional<Change> change_;
  std::unique_ptr<Timer> timer_, growing_;
  std::optional<Error> loss_;  // of the present engine; the first reason
  Crew served_;                // the last one that served
  Duration growth_pause_{};    // before the wanted ranks are tried again
  bool is_silent_ = false;     // it is the reason
  bool is_replaced_ = false;   // it ends for another number of ranks
  bool is_finishing_ = false;  // it was asked to end
};

}  // namespace lockstep::serve
