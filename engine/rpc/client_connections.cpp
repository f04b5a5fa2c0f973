#include "engine/rpc/client_connections.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transport/network.h"

namespace lockstep::rpc {
namespace {

constexpr auto kWithoutFiles = 100 * kj::MILLISECONDS;
constexpr auto kHostSilence = std::chrono::seconds(30);  // then the clients of a host are gone

/// One connection while it is open.
struct OpenConnection {
  OpenConnection(kj::Own<kj::AsyncIoStream> own, wire::Entrance::Client entrance)
      : stream(kj::mv(own)),
        network(*stream, capnp::rpc::twoparty::Side::SERVER),
        system(capnp::makeRpcServer(network, kj::mv(entrance))) {}

  kj::Own<kj::AsyncIoStream> stream;
  capnp::TwoPartyVatNetwork network;
  capnp::RpcSystem<capnp::rpc::twoparty::VatId> system;
};

bool is_power_of_ten(uint64_t count) {
  while (count % 10 == 0) count /= 10;
  return count == 1;
}

}  // namespace

ClientConnections::ClientConnections(kj::ConnectionReceiver& listener, kj::Timer& timer, Options options)
    : listener_(listener), timer_(timer), options_(std::move(options)), tasks_(*this) {
  tasks_.add(accept_all());
}

/// Continues after an error: a process without free files has some again.
kj::Promise<void> ClientConnections::accept_all() {
  return listener_.accept()
      .then(
          [this](kj::Own<kj::AsyncIoStream>&& stream) -> kj::Promise<void> {
            begin(kj::mv(stream));
            return kj::READY_NOW;
          },
          [this](kj::Exception&&) -> kj::Promise<void> { return timer_.afterDelay(kWithoutFiles); })
      .then([this] { return accept_all(); });
}

void ClientConnections::begin(kj::Own<kj::AsyncIoStream> stream) {
  const auto has_to_enter = [](const auto& client) { return !client.second.has_entered; };
  if (std::ranges::count_if(clients_, has_to_enter) >= options_.most_entering) {
    refuse(std::ranges::find_if(clients_, has_to_enter)->first, "too many clients that have not entered");
  }
  KJ_IF_MAYBE (socket, stream->getFd()) transport::end_when_unreachable(*socket, kHostSilence);
  const uint64_t number = ++accepted_;
  auto closed = kj::newPromiseAndFulfiller<void>();
  clients_[number].close = kj::mv(closed.fulfiller);
  auto connection = kj::heap<OpenConnection>(kj::mv(stream), options_.make_entrance([this, number] {
    if (const auto found = clients_.find(number); found != clients_.end()) found->second.has_entered = true;
  }));
  auto ended = connection->network.onDisconnect().then([this, number] { clients_.erase(number); });
  tasks_.add(ended.exclusiveJoin(kj::mv(closed.promise)).attach(kj::mv(connection)));
  tasks_.add(timer_.afterDelay(options_.deadline).then([this, number] {
    refuse(number, "a client that has not entered within its deadline");
  }));
}

/// Closes a client's connection unless it has entered.
void ClientConnections::refuse(uint64_t number, const char* found) {
  const auto one = clients_.find(number);
  if (one == clients_.end() || one->second.has_entered) return;
  one->second.close->fulfill();
  clients_.erase(one);
  if (!options_.on_refused || !is_power_of_ten(++refused_)) return;
  options_.on_refused(
      fmt::format("[engine/rpc] closed a client's connection: found {}, expected the engine's secret in "
                  "time; the engine goes on, find the program that connects to its port{}",
                  found, refused_ == 1 ? "" : fmt::format(" ({} so far)", refused_)));
}

}  // namespace lockstep::rpc
