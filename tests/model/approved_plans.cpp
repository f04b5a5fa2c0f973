#include "tests/model/approved_plans.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

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
    const bool has_two_kinds = !spec.dense_layers.empty() || !spec.delta_layers.empty();
    spec.layers = has_two_kinds ? 2 : 1;  // with experts and without, a recurrence and attention
    std::erase_if(spec.dense_layers, [&](int64_t layer) { return layer >= spec.layers; });
    if (!spec.delta_layers.empty()) spec.delta_layers = {0};
    spec.layers_sharing_cache = 0;
    specs.emplace(spec.model_type, std::move(spec));
  }
  return specs;
}

std::string plans_of(const checkpoint::ModelSpec& spec,
                     const std::function<std::string(const graph::Graph&)>& text_of) {
  std::string text;
  for (const int ranks : {1, 2}) {
    const partition::Partition partition = partition::make_partition(spec, ranks).value();
    const shards::ShardGraphs graphs =
        shards::build_graphs(spec, partition, /*rank=*/0, {.chunk = 16, .capacity = 64}, graph::default_passes())
            .value();
    for (const graph::Graph* graph : {&graphs.decode.front(), &graphs.prefill.front()}) text += text_of(*graph) + "\n";
  }
  return text;
}

}  // namespace

void expect_approved_plans(const std::string& folder, const std::function<std::string(const graph::Graph&)>& text_of) {
  for (const auto& [family, spec] : specs()) {
    SCOPED_TRACE(family);
    const std::string path = folder + "/" + family + ".txt";
    const std::string text = plans_of(spec, text_of);
    if (std::getenv("LOCKSTEP_WRITE_GOLDENS") != nullptr) std::ofstream(path) << text;
    std::stringstream approved;
    approved << std::ifstream(path).rdbuf();
    EXPECT_EQ(text, approved.str());
  }
}

}  // namespace lockstep::model
