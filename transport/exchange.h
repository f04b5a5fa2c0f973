// Exchanges of texts over a communicator, and the places of the ranks from such an exchange.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/communicator.h"
#include "runtime/topology/machine.h"
#include "transport/bootstrap.h"

namespace lockstep::transport {

/// The texts of all ranks, by rank.
/// @collective @blocking
Result<std::vector<std::string>> exchange_over(device::Communicator& communicator, std::string_view mine);

/// One rank's line in that exchange. Ranks are on one host if name, kernel and memory are equal: names repeat between
/// machines, kernels between containers, and a container may have a private /dev/shm.
struct OwnPlace {
  std::string host;
  std::string kernel;  // id of the running kernel
  std::string memory;  // id of the mounted /dev/shm; empty: unknown
  std::vector<topology::CoreThread> cores;
  int host_cores = 0;

  friend bool operator==(const OwnPlace&, const OwnPlace&) = default;
};

/// Where the calling thread runs. Reads the machine, some 2 ms. @blocking
OwnPlace own_place();
/// The places of all ranks, found by an exchange over `bootstrap`.
/// @collective @blocking
Result<std::vector<RankPlace>> exchange_places(Bootstrap& bootstrap, const OwnPlace& own);

/// A bootstrap that exchanges over `communicator`; `name` is its own. `place` is called once, when places are asked
/// for.
std::unique_ptr<Bootstrap> make_bootstrap_over(std::unique_ptr<device::Communicator> communicator, std::string name,
                                               std::function<OwnPlace()> place = own_place);

std::string to_text(const OwnPlace& place);

/// Numbers the ranks of each host. Fails with `kFailedPrecondition` on a text that `to_text` did not make.
Result<std::vector<RankPlace>> places_from(const std::vector<std::string>& texts);

}  // namespace lockstep::transport
