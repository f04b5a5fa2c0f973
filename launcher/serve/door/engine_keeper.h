// Keeps an engine behind the server: starts its processes, connects, and starts them again when they are lost.
//
//   start ─► processes ─► connection ─► DoorParts::engine      lost ─► the rest is ended ─► start, or over (recovery.h)
//
// Another number of ranks: the new ones load beside the old ones, then take over. Without the memory for both, or where
// the old ones are lost meanwhile, the new ones start after the end of the old ones.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "launcher/serve/door/engine_process.h"
#include "launcher/serve/door/parts.h"
#include "launcher/serve/door/recovery.h"
#include "launcher/serve/engine/rpc_engine.h"

namespace lockstep::serve {

/// On the loop's thread. Destroyed before the parts.
class EngineKeeper {
 public:
  /// What happens to the engine; called on the loop's thread.
  struct Events {
    std::function<void()> on_serving;                       // requests are answered, for the first time or again
    std::function<void(const Error&, bool again)> on_lost;  // another start may follow, or `on_over` does
    std::function<void(const Error&)> on_over;              // there will be no engine any more
    std::function<void(const Result<void>&)> on_finished;   // after `finish`: how it has ended
  };

  /// `environment`: of the engine's command.
  EngineKeeper(DoorParts& parts, process::EnvironmentMap environment, Events events);
  ~EngineKeeper();

  /// Fails when no engine can be started here at all.
  Result<void> start();
  /// Begins to serve with another number of ranks; DoorParts::change says how it goes. Fails with
  /// `kFailedPrecondition` while there is nothing to change: before the engine serves, during another change, and where
  /// the ranks are not this server's.
  Result<void> change_ranks(int ranks);
  /// The engine has not answered for `DoorOptions::silence_s`.
  void note_silent();
  /// Ends the engine, unless it is not this server's.
  void finish();
  /// Waits until no process of the engine is left. @blocking
  void close();

 private:
  /// Processes and the connection to them.
  struct Group {
    int ranks = 0;
    std::unique_ptr<EngineProcess> process;  // null: the engine is not this server's
    std::unique_ptr<Connection> connection;
  };

  bool is_own() const { return !parts_.options.engine.empty(); }
  /// Whether mpirun or srun has started this process as rank 0, and the other ranks.
  bool of_another_launcher() const { return parts_.options.ranks == 0; }
  Result<EngineAddress> address() const;
  Result<std::unique_ptr<Group>> begin(int ranks);
  void on_connected(Group* group, Result<std::unique_ptr<Engine>>& engine);
  void serve_first(Result<std::unique_ptr<Engine>>& engine);
  void take_over(Result<std::unique_ptr<Engine>>& engine);
  void on_disconnected(const Group* group, const Error& error);
  void on_gone(Group* group, const Result<void>& result);
  void start_after(const Result<void>& result);
  void lose(const Error& error);
  void start_again();
  void give_up(const Error& error);
  void prepare_change(RankChange change);
  void begin_change(int ranks, bool has_room);
  void end_change(std::string failure);
  void note_serving();
  void retire(std::unique_ptr<Group> group);
  void watch_size();

  DoorParts& parts_;
  const process::EnvironmentMap environment_;
  const Events events_;
  Recovery recovery_;
  Degree degree_;
  std::unique_ptr<Group> group_;               // null: between two starts
  std::unique_ptr<Group> next_;                // loads beside it
  std::list<std::unique_ptr<Group>> retired_;  // end
  std::unique_ptr<Timer> timer_, growing_;
  std::optional<Error> loss_;  // of the present engine; the first reason
  int served_ranks_ = 0;       // the last number of ranks that served
  bool is_silent_ = false;     // it is the reason
  bool is_replaced_ = false;   // it ends for another number of ranks
  bool is_finishing_ = false;  // it was asked to end
};

}  // namespace lockstep::serve
