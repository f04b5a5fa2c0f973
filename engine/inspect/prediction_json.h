// JSON of a prediction, for `plan` and `bench`.
#pragma once

#include <nlohmann/json.hpp>

#include "shards/cost/prediction.h"

namespace lockstep::inspect {

/// {"decode_tokens_per_s", "prefill_tokens_per_s", "tpot_s", "ttft_s", "communication_share": {"decode", "prefill"}}.
nlohmann::ordered_json to_json(const cost::Prediction& prediction);

/// {"weights_s", "cache_s", "compute_s", "communication_s"}.
nlohmann::ordered_json to_json(const cost::StepParts& parts);

}  // namespace lockstep::inspect
