// The program lockstep-serve, which `lockstep serve` becomes.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "launcher/process/interruption.h"
#include "launcher/process/own_environment.h"
#include "launcher/serve/door/door.h"
#include "launcher/serve/door/request_log.h"
#include "runtime/core/guard.h"

namespace {

using namespace lockstep;

/// The options that `lockstep serve` has left in a memory file, which this process inherited.
Result<serve::DoorOptions> own_options() {
  const auto descriptor = launcher::own_variable(serve::kOptionsVariable);
  if (!descriptor) {
    return Error{
        ErrorKind::kInvalidArgument,
        "[serve] lockstep-serve has no options of its own: found none, expected those of lockstep serve; start "
        "the server with lockstep serve --model DIR"};
  }
  std::ifstream file("/proc/self/fd/" + *descriptor, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return serve::read_door_options(text);
}

/// The environment of the engine's command; that of a rank says which one it is.
process::EnvironmentMap engine_environment(const serve::DoorOptions& options) {
  process::EnvironmentMap environment = launcher::own_environment();
  environment.erase(serve::kOptionsVariable);
  if (own_ranks(options.replicas, options.replicas.ranks) > 0) environment["LOCKSTEP_RANK"] = "0";
  return environment;
}

Result<void> serve_until_the_end() {
  LOCKSTEP_TRY(serve::DoorOptions options, own_options());
  const auto print = [](std::string_view line) { fmt::print(stderr, "{}\n", line); };
  const Log log([print, format = serve::log_format(options.log_format)](LogLevel level, std::string_view line) {
    print(serve::message_line(format, level, line, std::chrono::system_clock::now()));
  });
  std::atomic<serve::Door*> running = nullptr;
  std::atomic<bool> is_early = false;
  std::unique_ptr<serve::Door> door;
  // Made before other threads, so that they do not get the signals; it ends before the door.
  const launcher::Interruption interruption([&](int) {
    is_early = true;  // first: a door that is published meanwhile finds it
    if (serve::Door* const target = running) target->interrupt();
  });
  process::EnvironmentMap environment = engine_environment(options);
  LOCKSTEP_TRY(door, serve::Door::open(std::move(options), std::move(environment), log, print));
  running = door.get();
  if (is_early) return Error{ErrorKind::kCancelled, "[serve] interrupted before it served"};
  fmt::print("{}\n", door->address());
  std::fflush(stdout);
  return door->run();
}

}  // namespace

int main() {
  const Result<void> result = guarded("serve", serve_until_the_end);
  if (result.has_value()) return 0;
  fmt::print(stderr, "lockstep: {}\n", result.error().message);
  std::fflush(stderr);
  std::_Exit(exit_code(result.error().kind));
}
