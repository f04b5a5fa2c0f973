// Ranks on hosts, for the rules of where they may run.
#pragma once

#include <string>
#include <vector>

#include "runtime/device/rank_place.h"

namespace lockstep::neuron {

/// `hosts` hosts of `ranks` ranks each.
inline std::vector<device::RankPlace> places_on(int hosts, int ranks) {
  std::vector<device::RankPlace> places;
  for (int rank = 0; rank < hosts * ranks; ++rank) {
    places.push_back({.rank = rank,
                      .host = "node" + std::to_string(rank / ranks),
                      .local_rank = rank % ranks,
                      .local_size = ranks,
                      .cores = {},
                      .node = rank / ranks,
                      .machine = {}});
  }
  return places;
}

}  // namespace lockstep::neuron
