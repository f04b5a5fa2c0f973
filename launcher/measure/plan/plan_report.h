// The result of `plan` as a readable table and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/measure/plan/degree.h"
#include "shards/cost/gqa_costs.h"

namespace lockstep::launcher {

struct PlanReport {
  std::string model;  // the directory or the config
  PlanSetting setting;
  std::vector<std::string> assumptions;  // about the machine, one sentence each
  std::vector<Degree> degrees;           // from 1 on
  std::vector<cost::GqaCost> gqa;        // of the degree of --detail; otherwise none
  Best best;
};

/// The document of `plan --json`.
std::string to_json(const PlanReport& report);

/// The tables on stdout.
std::string to_text(const PlanReport& report);

/// Every rank of one degree: its part of the model and its memory.
std::string ranks_to_text(const PlanReport& report, const WorkingDegree& degree);

}  // namespace lockstep::launcher
