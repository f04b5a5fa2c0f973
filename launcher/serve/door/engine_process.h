// The process of the engine's rank 0, which this server starts. It starts the other ranks itself.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "launcher/serve/http/event_loop.h"
#include "runtime/core/result.h"
#include "runtime/core/stop_event.h"
#include "runtime/process/child_process.h"

namespace lockstep::serve {

/// Neither copied nor moved. The process never outlives it, nor this program.
class EngineProcess {
 public:
  /// Starts `words` with the option --socket. `on_end` is called once on the loop's thread: success for exit code 0,
  /// otherwise an error whose kind has the engine's exit code. The loop outlives it.
  /// Fails with `kUnavailable` when there is no place for the socket.
  static Result<std::unique_ptr<EngineProcess>> start(std::vector<std::string> words,
                                                      process::EnvironmentMap environment, EventLoop& loop,
                                                      std::function<void(const Result<void>&)> on_end);
  ~EngineProcess();
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  /// Ends it, by force if it does not react; `on_end` follows. Does not wait.
  void stop() { stop_.raise(); }

  /// Where it will serve; only this user can open the folder.
  std::filesystem::path socket() const { return folder_ / "engine.sock"; }

 private:
  explicit EngineProcess(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path folder_;
  StopEvent stop_;
  std::thread thread_;
};

}  // namespace lockstep::serve
