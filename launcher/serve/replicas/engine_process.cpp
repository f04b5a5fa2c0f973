#include "launcher/serve/replicas/engine_process.h"

#include <utility>

namespace lockstep::serve {

Result<void> engine_end(const launcher::RanksEnd& end) {
  if (end.was_stopped() || end.attempt.code == 0) return ok();
  Error error{kind_of(end.attempt), {}};
  if (!end.attempt.lost_ranks.empty()) error.origin_rank = *end.attempt.lost_ranks.begin();
  error.message = "[serve] the engine has ended: " + describe(end, "serve");
  return error;
}

Result<std::unique_ptr<EngineProcess>> EngineProcess::start(EngineStart start, EventLoop& loop,
                                                            std::function<void(const Result<void>&)> on_end) {
  LOCKSTEP_TRY(launcher::PrivateFolder folder, launcher::PrivateFolder::make());
  std::unique_ptr<EngineProcess> own(new EngineProcess(std::move(folder)));
  start.words.insert(start.words.end(), {"--socket", own->socket().string()});
  // Other machines may lack a folder that was made for this start.
  if (!start.records.empty() && !start.shares_records) start.words.emplace_back("--make-exit-record");
  // Ranks on other machines cannot write here.
  if (start.records.empty() && start.ranks > 0) start.records = own->folder_.path();
  if (!start.records.empty()) start.words.insert(start.words.end(), {"--exit-record", start.records.string()});
  // The address that the engine prints is no part of this program's output.
  launcher::RanksCommand command{
      .child = {.words = std::move(start.words),
                .environment = std::move(start.environment),
                .output = process::ChildStream::kDiscard,
                .hardware_threads = std::move(start.hardware_threads)},
      .role = start.ranks > 0 ? launcher::WatchedChild::kRankZero : launcher::WatchedChild::kLauncher,
      .ranks = start.ranks > 0 ? std::optional(start.ranks) : std::nullopt,
      .records = std::move(start.records),
      .shares_records = start.shares_records};
  own->thread_ = std::thread([&loop, command = std::move(command), on_end = std::move(on_end), own = own.get()] {
    const auto end = own->ranks_.run(command);
    loop.post(
        [on_end, result = end.has_value() ? engine_end(end.value()) : Result<void>(end.error())] { on_end(result); });
  });
  return own;
}

EngineProcess::~EngineProcess() {
  stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace lockstep::serve
