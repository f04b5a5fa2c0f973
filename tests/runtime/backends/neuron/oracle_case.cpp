#include "tests/runtime/backends/neuron/oracle_case.h"

namespace lockstep::neuron {

std::vector<OracleCase> oracle_cases() {
  std::vector<OracleCase> cases;
  for (const auto& make : {dense_cases, attention_cases, slot_cases, family_cases}) {
    for (OracleCase& c : make()) cases.push_back(std::move(c));
  }
  return cases;
}

OracleCase single_step(std::string name, std::vector<conformance::Case> by_rank, double tolerance) {
  OracleCase c{.name = std::move(name), .tolerance = tolerance, .graphs = {{}}, .script = {{}}};
  std::vector<conformance::Contents> contents;
  for (conformance::Case& own : by_rank) {
    c.graphs[0].push_back(std::move(own.graph));
    c.script[0].inputs.push_back(std::move(own.inputs));
    contents.push_back(std::move(own.contents));
  }
  c.contents = [contents] { return contents; };
  return c;
}

std::vector<LoweredStep> lower_all(const OracleCase& c) {
  std::vector<LoweredStep> steps;
  for (const auto& graphs : c.graphs) steps.push_back(lower(graphs, c.options).value());
  return steps;
}

}  // namespace lockstep::neuron
