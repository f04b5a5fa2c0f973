#include "engine/model/requirements.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "engine/model/served_spec.h"

namespace lockstep::model {
namespace {

/// Whether `format` has products of 8-bit integers (runtime/core/int8_groups.h).
bool is_int8(const checkpoint::MatrixFormat& format) {
  return format.weights == WeightFormat{.bits = 8, .group = format.weights.group} &&
         format.activations == checkpoint::ActivationFormat::kInt8ByGroup;
}

Error no_codes(const checkpoint::ModelSpec& spec, std::string_view found, std::string_view remedy) {
  return {ErrorKind::kUnsupported,
          fmt::format("[engine] cannot run a {}: found {}, expected a backend that multiplies by them; {}",
                      spec.model_type, found, remedy)};
}

constexpr std::string_view kRemedyOfRounding = "add --activations elements to multiply them as they are";

checkpoint::ActivationFormat activations_of(const checkpoint::ModelSpec& spec, const std::string& matrix) {
  const std::optional<checkpoint::MatrixFormat> format = spec.formats.of(matrix);
  return format ? format->activations : checkpoint::ActivationFormat::kElements;
}

/// Checks that inputs are not rounded to floats of 4 bits, which no backend does.
Result<void> require_known_rounding(const checkpoint::ModelSpec& spec) {
  if (!spec.formats.activations().contains(checkpoint::ActivationFormat::kE2M1ByGroup)) return ok();
  return no_codes(spec, "matrices whose inputs are rounded to floats of 4 bits", kRemedyOfRounding);
}

/// Checks that what experts multiply is rounded in a way that there is: alike for gate, up and down, without scales of
/// the files, which each expert would have.
Result<void> require_rounded_experts(const checkpoint::ModelSpec& spec, bool backend_rounds) {
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (!spec.has_experts(layer)) continue;
    const auto of = [&](std::string_view name) {
      return activations_of(spec, fmt::format("model.layers.{}.mlp.experts.*.{}_proj.weight", layer, name));
    };
    const checkpoint::ActivationFormat gate = of("gate");
    const bool is_fixed = std::ranges::any_of(std::array{gate, of("up"), of("down")}, checkpoint::is_fixed);
    if (!is_fixed) continue;
    if (of("up") != gate || of("down") != gate) {
      return no_codes(spec, fmt::format("experts of layer {} whose matrices round their inputs differently", layer),
                      kRemedyOfRounding);
    }
    if (gate == checkpoint::ActivationFormat::kE4M3ByTensor) {
      return no_codes(spec, "experts whose inputs are rounded with scales of the files", kRemedyOfRounding);
    }
    if (!backend_rounds) return no_codes(spec, "experts whose inputs are rounded", kRemedyOfRounding);
  }
  return ok();
}

/// Checks that the backend has the products of the model's matrices in codes.
Result<void> require_codes(const checkpoint::ModelSpec& spec, device::CodedWeights backend) {
  if (!spec.formats.any() || backend == device::CodedWeights::kAll) return ok();
  const bool are_all_int8 = spec.formats.usual && is_int8(*spec.formats.usual) && spec.formats.exceptions.empty();
  if (backend == device::CodedWeights::kNone || !are_all_int8) {
    return no_codes(spec, fmt::format("{} weights", weights_in_words(spec)), "choose --backend cpu, cuda or reference");
  }
  if (spec.experts == 0) return ok();
  return no_codes(spec, "experts in 8 bits", "omit --weights, or choose --backend cpu, cuda or reference");
}

}  // namespace

Result<void> require_operations(const checkpoint::ModelSpec& spec, const device::Capabilities& backend) {
  LOCKSTEP_TRY_VOID(require_codes(spec, backend.coded_weights));
  LOCKSTEP_TRY_VOID(require_known_rounding(spec));
  LOCKSTEP_TRY_VOID(require_rounded_experts(spec, backend.rounded_experts));
  if (spec.latent && !backend.latent_attention) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[engine] cannot run a {}: found latent attention, expected a backend that runs it; choose "
                    "--backend cpu or reference",
                    spec.model_type)};
  }
  if (spec.cache_type != CacheType::kModel && !backend.coded_caches) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[engine] --kv-dtype: found {}, expected a backend that keeps keys and values in 8 bits; "
                             "choose --backend cpu, cuda or reference, or omit it",
                             to_string(spec.cache_type))};
  }
  if (spec.delta_layers.empty() || backend.recurrences) return ok();
  return Error{ErrorKind::kUnsupported,
               fmt::format("[engine] cannot run a {}: found {} recurrent layers (the gated delta rule), expected a "
                           "backend that runs them; choose --backend cpu, reference or cuda",
                           spec.model_type, spec.delta_layers.size())};
}

Result<void> require_gathered_rounding(const checkpoint::ModelSpec& spec, partition::GqaMode gqa) {
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const auto of = [&](std::string_view name) {
      return activations_of(spec, fmt::format("model.layers.{}.self_attn.{}_proj.weight", layer, name));
    };
    const checkpoint::ActivationFormat keys = of("k");
    if (keys == of("v") && keys != checkpoint::ActivationFormat::kE4M3ByTensor) continue;
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[engine] --gqa: found {}, expected heads or replicated: {} weights round the inputs of k "
                             "and v separately",
                             name_of(gqa), weights_in_words(spec))};
  }
  return ok();
}

}  // namespace lockstep::model
