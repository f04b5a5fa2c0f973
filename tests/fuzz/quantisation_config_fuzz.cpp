// Fuzzes the configs of quantised checkpoints: one is refused with a message, or every matrix has a valid format.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/checkpoint/quantisation_config.h"

namespace {

using namespace lockstep::checkpoint;

void check_format(std::string_view name, const std::optional<MatrixFormat>& format) {
  if (!format) return;
  const lockstep::WeightFormat weights = format->of_columns(96);
  LOCKSTEP_CHECK(weights.group >= 1 && weights.group <= 96, name, weights.group);
  LOCKSTEP_CHECK(lockstep::weight_format_from_text(to_string(weights)) == weights, name, to_string(weights));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = parse_config(text, "fuzz.json");
  if (!config.has_value()) return 0;
  const auto quantisation = read_quantisation(config.value(), "fuzz.json", lockstep::DType::kBFloat16);
  ModelSpec spec;
  spec.model_type = "qwen3_moe";
  spec.layers = 2;
  spec.mlp = Mlp::kExperts;
  spec.experts = 2;
  spec.dense_layers = {0};
  const auto formats = quantisation.has_value() ? expected_formats(quantisation.value(), spec)
                                                : lockstep::Result<WeightFormats>(quantisation.error());
  if (!formats.has_value()) {
    LOCKSTEP_CHECK(!formats.error().message.empty());
    return 0;
  }
  check_format("the usual format", formats.value().usual);
  for (const FormatException& exception : formats.value().exceptions) check_format(exception.tensor, exception.format);
  LOCKSTEP_CHECK(!formats.value().of("model.embed_tokens.weight"));
  return 0;
}
