#include "launcher/serve/replica_addresses.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "engine/group/state.h"
#include "engine/rpc/listening.h"
#include "launcher/process/launch_siblings.h"
#include "runtime/core/secret.h"

namespace lockstep::launcher {
namespace {

using rpc::RpcAddress;

std::string to_text(const RpcAddress& address) {
  return nlohmann::json{
      {"socket", address.socket.string()}, {"host", address.host}, {"port", address.port}, {"secret", address.secret}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// What `to_text` has written in another process of the same program.
RpcAddress parse_address(const std::string& text) {
  const auto fields = nlohmann::json::parse(text);
  return {.socket = fields.at("socket").get<std::string>(),
          .host = fields.at("host"),
          .port = fields.at("port"),
          .secret = fields.at("secret")};
}

/// The address of replica k, which is not the first. `offer`: the first one's socket, and the secret for the others.
Result<RpcAddress> address_beside(const group::State& state, const RpcAddress& offer) {
  const group::Replica& replica = state.replica();
  const auto& places = state.launch_places();
  const bool is_same_host = places.at(static_cast<size_t>(replica.first)).node == places.front().node;
  if (is_same_host && !offer.socket.empty()) {
    return RpcAddress{.socket = fmt::format("{}-{}", offer.socket.string(), replica.index)};
  }
  RpcAddress own{.socket = {}, .host = state.launch_address(), .port = 0, .secret = offer.secret};
  LOCKSTEP_TRY(const rpc::Listener listener, rpc::listen_on_free_port(own.host));
  own.listening = listener.descriptor;
  own.port = listener.port;
  return own;
}

}  // namespace

Result<ReplicaAddresses> agree_on_addresses(Group& group, const RpcAddress& first) {
  group::State& state = group::State::of(group);
  ReplicaAddresses addresses{.own = first, .others = {}};
  if (group.replicas() == 1) return addresses;
  RpcAddress offer;
  if (!first.socket.empty()) offer.socket = std::filesystem::absolute(first.socket);
  offer.secret = random_secret();
  LOCKSTEP_TRY(const auto offers, group.exchange_with_replicas(to_text(offer)));
  const auto find_own = [&]() -> Result<void> {
    if (!group.leads() || group.replica() == 0) return ok();
    LOCKSTEP_TRY(addresses.own, address_beside(state, parse_address(offers.front())));
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded_on_launch(group, find_own()));
  LOCKSTEP_TRY(const auto told, group.exchange_with_replicas(to_text(addresses.own)));
  if (!group.leads() || group.replica() != 0) return addresses;
  for (size_t replica = 1; replica < told.size(); ++replica) addresses.others.push_back(parse_address(told[replica]));
  return addresses;
}

}  // namespace lockstep::launcher
