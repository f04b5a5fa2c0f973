#include "runtime/graph/passes.h"
#include "runtime/graph/verifier.h"

namespace lockstep::graph {
namespace {

Error failed_in(const Pass& pass, const Error& cause) {
  return {cause.kind, fmt::format("[graph] pass {}: {}", pass.name, cause.message), cause.origin_rank};
}

}  // namespace

std::vector<Pass> default_passes() { return {{"fuse_qkv", fuse_qkv}, {"fuse_gate_up", fuse_gate_up}}; }

Result<Graph> run_passes(const Graph& graph, const std::vector<Pass>& passes) {
  Graph current = graph;
  for (const Pass& pass : passes) {
    auto rewritten = pass.run(current);
    if (!rewritten) return failed_in(pass, rewritten.error());
    current = std::move(rewritten).value();
    if (auto verified = verify(current); !verified) return failed_in(pass, verified.error());
  }
  return current;
}

}  // namespace lockstep::graph
