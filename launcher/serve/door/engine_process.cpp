#include "launcher/serve/door/engine_process.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>  // mkdtemp
#include <cstring>
#include <system_error>

namespace lockstep::serve {
namespace {

namespace fs = std::filesystem;

constexpr auto kGrace = std::chrono::seconds(5);  // between SIGTERM and SIGKILL

Result<fs::path> private_folder() {
  std::error_code failed;
  std::string pattern = (fs::temp_directory_path(failed) / "lockstep-XXXXXX").string();
  if (!failed && ::mkdtemp(pattern.data()) != nullptr) return fs::path(pattern);
  return Error{ErrorKind::kUnavailable,
               fmt::format("[serve] cannot make a folder for the engine's socket: found '{}', expected a writable {}; "
                           "set TMPDIR",
                           std::strerror(errno), pattern)};
}

/// A code that is none of ours is that of a launcher (137, 9) whose rank was killed.
ErrorKind kind_of_code(int code) {
  for (int i = 0; i <= static_cast<int>(ErrorKind::kCancelled); ++i) {
    if (exit_code(static_cast<ErrorKind>(i)) == code) return static_cast<ErrorKind>(i);
  }
  return ErrorKind::kPeerLost;
}

Result<void> result_of(const Result<process::ChildOutcome>& ran) {
  if (!ran.has_value()) return ran.error();
  const process::ChildOutcome& outcome = ran.value();
  if (outcome.end == process::ChildOutcome::End::kStop || outcome.code == 0) return ok();
  // A killed rank 0 is a lost rank like any other.
  const ErrorKind kind = outcome.code ? kind_of_code(*outcome.code) : ErrorKind::kPeerLost;
  return Error{kind, fmt::format("[serve] the engine has ended: found {}, expected it to serve; its messages above say "
                                 "why",
                                 to_string(outcome))};
}

}  // namespace

Result<std::unique_ptr<EngineProcess>> EngineProcess::start(std::vector<std::string> words,
                                                            process::EnvironmentMap environment, EventLoop& loop,
                                                            std::function<void(const Result<void>&)> on_end) {
  LOCKSTEP_TRY(fs::path folder, private_folder());
  std::unique_ptr<EngineProcess> own(new EngineProcess(std::move(folder)));
  words.insert(words.end(), {"--socket", own->socket().string()});
  // The address that the engine prints is no part of this program's output.
  process::ChildCommand command{
      .words = std::move(words), .environment = std::move(environment), .output = process::ChildStream::kDiscard};
  // The process gets its signal for orphans when the thread that started it ends.
  own->thread_ = std::thread([&loop, command = std::move(command), on_end = std::move(on_end), stop = &own->stop_] {
    const Result<void> result = result_of(process::run_child(command, {.grace = kGrace}, stop));
    loop.post([on_end, result] { on_end(result); });
  });
  return own;
}

EngineProcess::~EngineProcess() {
  stop_.raise();
  if (thread_.joinable()) thread_.join();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace lockstep::serve
