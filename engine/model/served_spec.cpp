#include "engine/model/served_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/int8_groups.h"

namespace lockstep::model {
namespace {

using checkpoint::ModelSpec;
using checkpoint::Positions;

Error refused(ErrorKind kind, std::string_view option, const std::string& found, std::string_view expected) {
  return {kind, fmt::format("[engine/model] {}: found {}, expected {}", option, found, expected)};
}

bool has_window(const ModelSpec& spec) {
  return std::ranges::any_of(spec.windows, [](int64_t window) { return window > 0; });
}

bool has_window_everywhere(const ModelSpec& spec) {
  return !spec.windows.empty() && std::ranges::all_of(spec.windows, [](int64_t window) { return window > 0; });
}

/// Refuses an option that changes windows, in a model whose windows are chunks.
Result<void> require_no_chunks(const ModelSpec& spec, std::string_view option, int64_t found) {
  if (!spec.chunked_windows) return ok();
  return refused(ErrorKind::kUnsupported, option, fmt::format("{}", found),
                 fmt::format("a model without chunks of attention; {} has some; omit it", spec.model_type));
}

/// Layers with a window may use another rope than layers without; their window is then part of the training.
Result<void> set_window(ModelSpec& spec, int64_t window) {
  LOCKSTEP_TRY_VOID(require_no_chunks(spec, "--window", window));
  if (spec.local_rope) {
    return refused(ErrorKind::kUnsupported, "--window", fmt::format("{}", window),
                   fmt::format("a model whose layers share one rope; in {} those with a window have their own; omit it",
                               spec.model_type));
  }
  spec.windows.assign(static_cast<size_t>(spec.layers), window);
  return ok();
}

Result<void> pin_sinks(ModelSpec& spec, int64_t sinks) {
  const std::string found = fmt::format("{}", sinks);
  if (!has_window(spec)) {
    return refused(
        ErrorKind::kInvalidArgument, "--pinned-sinks", found,
        fmt::format("a model with windows; in {} every layer sees everything; add --window", spec.model_type));
  }
  LOCKSTEP_TRY_VOID(require_no_chunks(spec, "--pinned-sinks", sinks));
  if (spec.positions != Positions::kRotary) {
    return refused(ErrorKind::kUnsupported, "--pinned-sinks", found,
                   fmt::format("a model with rotary positions; {} has others; omit it", spec.model_type));
  }
  if (spec.latent) {
    return refused(ErrorKind::kUnsupported, "--pinned-sinks", found,
                   fmt::format("a model without latent attention; {} has it; omit it", spec.model_type));
  }
  spec.pinned_sinks = sinks;
  return ok();
}

/// Matrices as 8-bit integers, `group` columns to a scale.
Result<void> set_int8_group(ModelSpec& spec, int64_t group) {
  const std::string found = fmt::format("int8:{}", group);
  if (!is_int8_group(group)) {
    return refused(ErrorKind::kInvalidArgument, "--weights", found,
                   fmt::format("int8 or int8:GROUP, a GROUP of columns being a multiple of {} up to {}",
                               kLeastInt8Group, kMostInt8Group));
  }
  if (spec.experts > 0) {
    return refused(
        ErrorKind::kUnsupported, "--weights", found,
        fmt::format("a model without experts, which stay in the model's type in {}; omit it", spec.model_type));
  }
  spec.int8_group = group;
  return ok();
}

}  // namespace

Result<ModelSpec> served_spec(const std::filesystem::path& config, const ModelOptions& options) {
  LOCKSTEP_TRY(ModelSpec spec, checkpoint::read_spec(config));
  if (options.window) LOCKSTEP_TRY_VOID(set_window(spec, *options.window));
  if (options.pinned_sinks > 0) LOCKSTEP_TRY_VOID(pin_sinks(spec, options.pinned_sinks));
  if (options.int8_group) LOCKSTEP_TRY_VOID(set_int8_group(spec, *options.int8_group));
  return spec;
}

std::string weights_in_words(const ModelSpec& spec) {
  return spec.int8_group > 0 ? fmt::format("int8:{}", spec.int8_group) : "dtype";
}

std::optional<int64_t> longest_sequence(const ModelSpec& spec) {
  const bool has_no_end = spec.positions == Positions::kAlibi || (spec.pinned_sinks > 0 && has_window_everywhere(spec));
  return has_no_end ? std::nullopt : std::optional(spec.max_positions);
}

int64_t default_capacity(const ModelSpec& spec) {
  constexpr int64_t kDefaultCapacity = 2048;
  return std::min(kDefaultCapacity, spec.max_positions);
}

std::string architecture_line(const ModelSpec& spec, DType dtype) {
  return fmt::format("{} layers, hidden {}, {} query and {} key/value heads of {}, MLP {}, vocabulary {}, {}{}",
                     spec.layers, spec.hidden_size, spec.query_heads, spec.key_value_heads, spec.head_dim,
                     spec.intermediate_size, spec.vocabulary, to_string(dtype),
                     spec.int8_group > 0 ? fmt::format(", {} weights", weights_in_words(spec)) : "");
}

}  // namespace lockstep::model
