#include "actors/rank_connections.h"

#include <fmt/format.h>

#include <algorithm>
#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <optional>
#include <set>
#include <utility>

#include "transport/ip_address.h"

namespace lockstep::actors {
namespace {

/// The key under which CAF keeps the coordinator; no port is opened for it.
constexpr uint16_t kCoordinatorKey = 1;

Error cannot_listen(const std::string& host, const std::string& why) {
  return {ErrorKind::kUnavailable,
          fmt::format("[actors] rank 0: cannot listen on {}: found '{}', expected a free port; check that the address "
                      "is one of this machine, that its interface is up and that more files may be opened (ulimit -n)",
                      host, why),
          /*origin_rank=*/0};
}

Error cannot_connect(const Address& address, ErrorKind kind, std::string_view why) {
  return {kind, fmt::format("[actors] cannot reach the coordinator of rank 0 at {}: {}; check that rank 0 runs and "
                            "that its address can be reached from here",
                            transport::with_port(address.host, address.port), why)};
}

/// CAF owns the descriptor afterwards.
caf::io::scribe_ptr scribe_of(caf::actor_system& system, Descriptor socket) {
  return system.middleman().backend().new_scribe(socket.release());
}

}  // namespace

RankConnections::RankConnections(caf::actor_system& system)
    : system_(system), broker_(system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"))) {}

RankConnections::~RankConnections() = default;

Result<uint16_t> RankConnections::listen(const SessionOptions& options, const CoordinatorHandle& coordinator) {
  const auto hand_over = [this, coordinator](transport::ProvenConnection proven) {
    caf::anon_send(broker_, caf::publish_atom::value, scribe_of(system_, std::move(proven.socket)), kCoordinatorKey,
                   caf::actor_cast<caf::strong_actor_ptr>(coordinator), system_.message_types<CoordinatorHandle>());
  };
  auto acceptor = transport::RankAcceptor::open(options.bind_address,
                                                {.secret = options.secret,
                                                 .size = options.size,
                                                 .purpose = transport::ConnectionPurpose::kActors,
                                                 .on_refused = options.on_refused},
                                                hand_over);
  if (!acceptor.has_value()) return cannot_listen(options.bind_address, acceptor.error().message);
  acceptor_ = std::move(acceptor).value();
  return acceptor_->port();
}

Result<CoordinatorHandle> RankConnections::connect(const SessionOptions& options, RankId rank, const Address& address) {
  const SteadyClock clock;
  const Deadline deadline(clock, options.connect_deadline);
  auto socket =
      transport::connect_to_rank_0(address.host, address.port, options.secret,
                                   {transport::ConnectionPurpose::kActors, rank.value}, options.connect_deadline);
  if (!socket.has_value()) return cannot_connect(address, socket.error().kind, socket.error().message);
  CoordinatorHandle remote;
  std::optional<Error> failure;
  caf::scoped_actor self{system_};
  self->request(broker_, std::max<Duration>(deadline.remaining(), std::chrono::milliseconds(1)),
                caf::connect_atom::value, scribe_of(system_, std::move(socket).value()), address.port)
      .receive(
          [&](const caf::node_id&, const caf::strong_actor_ptr& actor, const std::set<std::string>& interface) {
            if (actor && system_.assignable(interface, system_.message_types<CoordinatorHandle>())) {
              remote = caf::actor_cast<CoordinatorHandle>(actor);
            } else {
              failure = cannot_connect(address, ErrorKind::kFailedPrecondition,
                                       "found something else there, expected a coordinator of the same version");
            }
          },
          [&](const caf::error& error) {
            const bool is_late = error == caf::sec::request_timeout;
            const auto kind = is_late ? ErrorKind::kDeadlineExceeded : ErrorKind::kUnavailable;
            failure = cannot_connect(address, kind, system_.render(error));
          });
  if (failure) return *std::move(failure);
  return remote;
}

}  // namespace lockstep::actors
