#include "tests/runtime/backends/neuron/reference_run.h"

namespace lockstep::neuron {

std::vector<RankRecord> run_reference(const OracleCase& c, const std::vector<conformance::Contents>& contents) {
  std::vector<RankRecord> records(contents.size());
  conformance::run_ranks(c.ranks(), [&](int rank, device::Communicator& communicator) {
    const auto r = static_cast<size_t>(rank);
    std::vector<graph::Graph> graphs;
    for (const auto& ranks : c.graphs) graphs.push_back(ranks[r]);
    conformance::Session session(conformance::reference_backend(), graphs, &communicator);
    session.set(contents[r]);
    for (const ScriptedStep& step : c.script) {
      session.run(step.graph, step.inputs[r]).value();
      records[r].outputs.push_back(session.outcome(step.graph).outputs);
    }
    for (size_t i = 0; i < graphs.size(); ++i) records[r].states.merge(session.outcome(i).states);
  });
  return records;
}

}  // namespace lockstep::neuron
