// The process of the engine's rank 0, which this server starts. It starts the other ranks itself.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "launcher/process/private_folder.h"
#include "launcher/process/rank_processes.h"
#include "launcher/serve/http/event_loop.h"
#include "runtime/core/result.h"
#include "runtime/process/child_process.h"

namespace lockstep::serve {

/// How an engine is started.
struct EngineStart {
  std::vector<std::string> words;  // the command without its socket
  process::EnvironmentMap environment;
  int ranks = 0;                           // that it starts on this machine; 0: a launcher starts them
  std::filesystem::path records = {};      // where its ranks write their exit records; empty: a private folder
  bool shares_records = false;             // ranks that another launcher has started write there, too
  std::vector<int> hardware_threads = {};  // that its ranks may run on; empty: all of this process's
};

/// Neither copied nor moved. No process of the engine outlives it, nor this program.
class EngineProcess {
 public:
  /// Starts the command with the option --socket. `on_end` is called once on the loop's thread, when no process of the
  /// engine is left: success for exit code 0, otherwise an error whose kind has the engine's exit code; it names the
  /// rank where the end began, if the ranks have recorded it. The loop outlives it. Fails with `kUnavailable` when
  /// there is no place for the socket.
  static Result<std::unique_ptr<EngineProcess>> start(EngineStart start, EventLoop& loop,
                                                      std::function<void(const Result<void>&)> on_end);
  ~EngineProcess();
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  /// Ends it, by force if it does not react; `on_end` follows. Does not wait.
  void stop() { stop_.raise(); }
  /// Ends it by force; `on_end` follows. Does not wait.
  void kill() { ranks_.kill(); }

  /// Where it will serve; only this user can open the folder.
  std::filesystem::path socket() const { return folder_.path() / "engine.sock"; }

 private:
  explicit EngineProcess(launcher::PrivateFolder folder) : folder_(std::move(folder)) {}

  const launcher::PrivateFolder folder_;
  StopEvent stop_;
  launcher::RankProcesses ranks_{stop_};
  std::thread thread_;
};

/// What the end of an engine means to its server: an engine that was stopped has ended well. Pure.
Result<void> engine_end(const launcher::RanksEnd& end);

}  // namespace lockstep::serve
