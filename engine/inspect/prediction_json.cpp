#include "engine/inspect/prediction_json.h"

namespace lockstep::inspect {

nlohmann::ordered_json to_json(const cost::Prediction& prediction) {
  return {
      {"decode_tokens_per_s", prediction.decode_tokens_per_s},
      {"prefill_tokens_per_s", prediction.prefill_tokens_per_s},
      {"tpot_s", prediction.tpot_s},
      {"ttft_s", prediction.ttft_s},
      {"communication_share",
       {{"decode", prediction.decode.communication_share()}, {"prefill", prediction.prefill.communication_share()}}}};
}

nlohmann::ordered_json to_json(const cost::StepParts& parts) {
  return {{"weights_s", parts.weights_s},
          {"cache_s", parts.cache_s},
          {"compute_s", parts.compute_s},
          {"communication_s", parts.communication_s}};
}

}  // namespace lockstep::inspect
