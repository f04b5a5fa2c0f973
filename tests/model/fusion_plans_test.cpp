// Compares the cpu backend's fusion plans for each family with the texts in fusion_plans. One layer, a decode step of
// one row and a prefill chunk, on one rank and on the first of two. LOCKSTEP_WRITE_GOLDENS=1 in the environment writes
// them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/graph/passes.h"
#include "shards/shard_graphs.h"
#include "tests/model/golden.h"

namespace lockstep::model {
namespace {

/// Of each family, the first golden's.
std::map<std::string, checkpoint::ModelSpec> specs() {
  std::map<std::string, checkpoint::ModelSpec> specs;
  for (const std::string& name : golden_names(LOCKSTEP_GOLDENS_DIR)) {
    checkpoint::ModelSpec spec = checkpoint::parse_spec(read_golden(LOCKSTEP_GOLDENS_DIR, name).config, name).value();
    spec.layers = 1;
    specs.emplace(spec.model_type, std::move(spec));
  }
  return specs;
}

std::string plans_of(const checkpoint::ModelSpec& spec) {
  std::string text;
  for (const int ranks : {1, 2}) {
    const partition::Partition partition = partition::make_partition(spec, ranks).value();
    const shards::ShardGraphs graphs =
        shards::build_graphs(spec, partition, /*rank=*/0, {.chunk = 16, .capacity = 64}, graph::default_passes())
            .value();
    for (const graph::Graph* graph : {&graphs.decode.front(), &graphs.prefill.front()}) {
      text += cpu::explain(*graph) + "\n";
    }
  }
  return text;
}

TEST(FusionPlans, OfEveryFamilyAreAsApproved) {
  for (const auto& [family, spec] : specs()) {
    SCOPED_TRACE(family);
    const std::string path = std::string(LOCKSTEP_FUSION_PLANS_DIR) + "/" + family + ".txt";
    const std::string text = plans_of(spec);
    if (std::getenv("LOCKSTEP_WRITE_GOLDENS") != nullptr) std::ofstream(path) << text;
    std::stringstream approved;
    approved << std::ifstream(path).rdbuf();
    EXPECT_EQ(text, approved.str());
  }
}

}  // namespace
}  // namespace lockstep::model
