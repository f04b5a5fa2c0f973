#include "actors/shard_actor.h"

#include <memory>

#include "actors/unexpected_messages.h"
#include "runtime/process/resident_memory.h"

namespace lockstep::actors {
namespace {

/// Only the first end counts, so a coordinator that leaves after a successful end is not a loss.
void end_session(const ShardPorts& ports, const std::optional<Error>& error) {
  if (ports.gate->is_open()) return;
  if (error) ports.abort->raise(*error);
  ports.gate->open(error);
  ports.queue->wake();
}

Error coordinator_lost() {
  return {ErrorKind::kPeerLost,
          "[actors] rank 0 was lost: the coordinator's connection closed, expected it to stay until the session ends; "
          "look at that rank's own log, then start again",
          /*origin_rank=*/0};
}

/// Measures the memory of this process, at most once a second.
class MemoryMeter {
 public:
  int64_t read() {
    const TimePoint now = SteadyClock().now();
    if (bytes_ > 0 && now - last_ < std::chrono::seconds(1)) return bytes_;
    last_ = now;
    bytes_ = process::resident_memory().value;
    return bytes_;
  }

 private:
  TimePoint last_{};
  int64_t bytes_ = 0;
};

}  // namespace

LocalShard::behavior_type shard_actor(LocalShard::pointer self, ShardPorts ports, CoordinatorHandle coordinator) {
  drop_unexpected(self, [refused = std::make_shared<RefusedMessages>(ports.rank, ports.on_refused)](
                            const std::string& found) { refused->note(found); });
  if (ports.detection == PeerDetection::kOn) {
    self->set_down_handler([ports](caf::down_msg&) { end_session(ports, coordinator_lost()); });
    self->monitor(coordinator);
  }
  self->send(coordinator, hello_atom::value, ports.rank, ports.size, ShardHandle(self));
  return {
      [=](schedule_atom, const Schedule& schedule) {
        if (ports.trace) ports.trace(RankId(ports.rank), schedule);
        ports.queue->push(schedule);
      },
      [=](close_atom, const Closing& closing) {
        end_session(ports, error_of(closing));
        self->send(coordinator, closed_atom::value, ports.rank);
      },
      [=, memory = MemoryMeter()](done_atom, ScheduleDone done) mutable {
        done.resident = memory.read();
        self->send(coordinator, done_atom::value, ports.rank, done);
      },
      [=](failed_atom, const WireError& error) { self->send(coordinator, failed_atom::value, ports.rank, error); },
      [=](quit_atom) { self->quit(); },
  };
}

}  // namespace lockstep::actors
