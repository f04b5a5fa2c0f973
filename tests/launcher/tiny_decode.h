// The decode graph of the tiny Llama, for tests of bench's counts.
#pragma once

#include "runtime/graph/passes.h"
#include "shards/shard.h"
#include "tests/model/tiny_models.h"

namespace lockstep::launcher {

inline checkpoint::ModelSpec tiny_spec() { return checkpoint::parse_spec(model::kTinyLlama, "tiny").value(); }

inline graph::Graph tiny_decode(int ranks, int rank, int64_t slots) {
  const checkpoint::ModelSpec spec = tiny_spec();
  return shards::build_graphs(spec, partition::make_partition(spec, ranks).value(), rank,
                              {.slots = slots, .chunk = 4, .capacity = 16, .dtype = DType::kFloat32},
                              graph::default_passes())
      .value()
      .decode.back();
}

}  // namespace lockstep::launcher
