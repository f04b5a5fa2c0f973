// The implementations that both programs of the suite share.
#pragma once

#include "tests/conformance/communicator/stage.h"
#include "transport/choosing.h"
#include "transport/shm/shm.h"

namespace lockstep::conformance {

constexpr size_t kSmallRound = 8192;  // bytes: most messages of the suite take several rounds

inline Implementation shm_with(std::string name, size_t message_bytes,
                               transport::shm::Copies copies = transport::shm::Copies::kThroughCache,
                               transport::shm::FileKind file = transport::shm::FileKind::kNameless) {
  return {.name = std::move(name),
          .message_bytes = message_bytes,
          .make = [=](Peer& peer, const transport::WaitOptions& wait) -> Result<std::unique_ptr<device::Communicator>> {
            LOCKSTEP_TRY(auto made,
                         transport::shm::make_communicator(
                             peer.bootstrap, wait, {.message_bytes = message_bytes, .copies = copies, .file = file}));
            return made;
          },
          .lends_places = true};
}

/// A choosing communicator over two others, made by `first` and `second`.
inline Implementation choosing_from(Implementation first, Implementation second) {
  return {.name = "choosing",
          .message_bytes = first.message_bytes,
          .make = [first, second](Peer& peer,
                                  const transport::WaitOptions& wait) -> Result<std::unique_ptr<device::Communicator>> {
            std::vector<std::unique_ptr<device::Communicator>> ways(2);
            LOCKSTEP_TRY(ways[0], first.make(peer, wait));
            LOCKSTEP_TRY(ways[1], second.make(peer, wait));
            return transport::choose_communicator(peer.bootstrap, std::move(ways), wait, nullptr);
          },
          .allocates = first.allocates || second.allocates,
          .counts_all = false};
}

}  // namespace lockstep::conformance
