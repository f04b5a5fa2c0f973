#include "launcher/serve/door/shutdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::serve {
namespace {

constexpr auto kDrainLook = std::chrono::milliseconds(50);
constexpr auto kFlush = std::chrono::milliseconds(500);  // for clients to read the last error

}  // namespace

void Shutdown::on_signal() {
  switch (drain_.on_signal(parts_.health.state(), DoorParts::now())) {
    case Drain::SignalStep::kIgnore: return;
    case Drain::SignalStep::kStop:
      return end(Error{ErrorKind::kCancelled, "[serve] interrupted: open requests were cut"});
    case Drain::SignalStep::kDrain: break;
  }
  parts_.log.info("drains: no new requests, open ones have {:.0f} s", parts_.options.drain_s);
  parts_.health.note_draining();
  parts_.server->close_after_answers();
  look_whether_drained();
}

void Shutdown::look_whether_drained() {
  const size_t open = std::max(parts_.server->open_exchanges(), parts_.api->open_requests());
  switch (drain_.look(open, DoorParts::now())) {
    case Drain::DrainStep::kFinish: parts_.server->stop_accepting(); return finish_engine_();
    case Drain::DrainStep::kCut:
      return end(Error{ErrorKind::kCancelled,
                       fmt::format("[serve] drained for {:.0f} s: found {} requests that have not ended, expected "
                                   "none; they were cut, --drain-s gives them more time",
                                   parts_.options.drain_s, open)});
    case Drain::DrainStep::kWait: break;
  }
  draining_ = parts_.loop->after(kDrainLook, [this] { look_whether_drained(); });
}

void Shutdown::on_lost(const Error& error) {
  if (is_flushing_) return;
  note_end(error);
  parts_.log.error("{}", error.message);
}

void Shutdown::end_after_flush(const Error& error) {
  if (std::exchange(is_flushing_, true)) return;
  note_end(error);
  ending_ = parts_.loop->after(kFlush, [this, error] { end(error); });
}

void Shutdown::note_end(const Error& error) {
  parts_.health.note_lost();
  const size_t replicas = std::max<size_t>(1, parts_.statuses.size());
  for (size_t replica = 0; replica < replicas; ++replica) parts_.note_loss(error, replica);
  if (parts_.server != nullptr) parts_.server->close_after_answers();
  draining_.reset();
}

void Shutdown::end(Result<void> result) {
  result_ = std::move(result);
  parts_.loop->stop();
}

}  // namespace lockstep::serve
