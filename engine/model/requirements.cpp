#include "engine/model/requirements.h"

#include <fmt/format.h>

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

/// Checks that the backend has the products of the model's matrices in codes.
Result<void> require_codes(const checkpoint::ModelSpec& spec, device::CodedWeights backend) {
  if (spec.experts > 0 && rounds_inputs(spec)) {
    return no_codes(spec,
                    fmt::format("experts with {} weights, whose activations are quantised", weights_in_words(spec)),
                    "add --activations elements to multiply them as they are");
  }
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

}  // namespace lockstep::model
