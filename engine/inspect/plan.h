// A plan: which degrees work, what they need, how fast they should be, and which one to take.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/inspect/degree.h"
#include "lockstep/inspect.h"
#include "shards/cost/gqa_costs.h"

namespace lockstep::inspect {

struct PlanReport {
  std::string model;  // the directory or the config
  PlanSetting setting;
  std::vector<std::string> assumptions;  // about the machine, one sentence each
  std::vector<Degree> degrees;           // from 1 on
  std::vector<int> reported;             // PlanOptions::degrees
  std::vector<cost::GqaCost> gqa;        // of one degree, where asked for
  Best best;

  /// Whether the document and the choice include `degree`.
  bool reports(const Degree& degree) const;
};

/// Examines the degrees 1 to PlanOptions::most_ranks. Fails as `plan_document`. @blocking
Result<PlanReport> make_plan(const Model& model, const EngineOptions& options, const PlanOptions& plan);

/// The document of `plan --json`.
std::string to_json(const PlanReport& report);

}  // namespace lockstep::inspect
