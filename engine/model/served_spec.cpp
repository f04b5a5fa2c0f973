#include "engine/model/served_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/int8_groups.h"

namespace lockstep::model {
namespace {

using checkpoint::ActivationFormat;
using checkpoint::MatrixFormat;
using checkpoint::ModelSpec;
using checkpoint::option_text;
using checkpoint::Positions;
using checkpoint::served_format;

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

/// Matrices in codes, made of elements.
Result<void> set_weights(ModelSpec& spec, const MatrixFormat& format) {
  if (spec.formats.any()) {
    return refused(ErrorKind::kUnsupported, "--weights", option_text(format),
                   "a checkpoint with elements; this one has codes already; omit it");
  }
  if (served_format(option_text(format)) != format) {
    return refused(
        ErrorKind::kInvalidArgument, "--weights", to_string(format),
        fmt::format("q4, q8 or int8, each with :GROUP or without, a GROUP of columns being a multiple of {} up "
                    "to {}",
                    kLeastInt8Group, kMostInt8Group));
  }
  spec.formats = checkpoint::served_formats(format);
  return ok();
}

/// Activations of every matrix in codes: as they are, or in 8 bits where the checkpoint leaves the choice.
Result<void> set_activations(ModelSpec& spec, ActivationFormat activations) {
  const std::string found(to_string(activations));
  if (!spec.formats.any()) {
    return refused(ErrorKind::kInvalidArgument, "--activations", found,
                   "weights in codes; take a quantised checkpoint, or add --weights q4 or q8");
  }
  if (spec.formats.round_inputs() && activations != ActivationFormat::kElements) {
    return refused(ErrorKind::kUnsupported, "--activations", found,
                   "elements, or none: this checkpoint defines how activations are quantised; omit it");
  }
  const auto set = [activations](std::optional<MatrixFormat>& format) {
    if (!format) return;
    const bool can_be_int8 = is_int8_group(format->weights.group) && format->weights.kind != CodeKind::kE4M3;
    if (activations == ActivationFormat::kElements || can_be_int8) format->activations = activations;
  };
  set(spec.formats.usual);
  set(spec.formats.table);
  for (checkpoint::FormatException& exception : spec.formats.exceptions) set(exception.format);
  return ok();
}

Result<void> set_cache_type(ModelSpec& spec, CacheType type) {
  for (const checkpoint::HeadShape& heads : spec.head_shapes()) {
    if (heads.head_dim <= kMostCodedRow) continue;
    return refused(ErrorKind::kUnsupported, "--kv-dtype", std::string(to_string(type)),
                   fmt::format("heads of at most {} values; {} has some of {}; omit it", kMostCodedRow, spec.model_type,
                               heads.head_dim));
  }
  spec.cache_type = type;
  return ok();
}

}  // namespace

Result<ModelSpec> served_spec(const std::filesystem::path& config, const ModelOptions& options) {
  LOCKSTEP_TRY(ModelSpec spec, checkpoint::read_spec(config));
  if (options.window) LOCKSTEP_TRY_VOID(set_window(spec, *options.window));
  if (options.pinned_sinks > 0) LOCKSTEP_TRY_VOID(pin_sinks(spec, options.pinned_sinks));
  if (options.weights) LOCKSTEP_TRY_VOID(set_weights(spec, *options.weights));
  if (options.activations) LOCKSTEP_TRY_VOID(set_activations(spec, *options.activations));
  if (options.kv_dtype != CacheType::kModel) LOCKSTEP_TRY_VOID(set_cache_type(spec, options.kv_dtype));
  return spec;
}

std::string weights_in_words(const ModelSpec& spec) {
  if (spec.formats.usual) return option_text(*spec.formats.usual);
  return spec.formats.any() ? "mixed" : "dtype";
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
  return fmt::format("{} layers, hidden {}, {} query and {} key/value heads of {}, MLP {}, vocabulary {}, {}{}{}",
                     spec.layers, spec.hidden_size, spec.query_heads, spec.key_value_heads, spec.head_dim,
                     spec.intermediate_size, spec.vocabulary, to_string(dtype),
                     spec.formats.any() ? fmt::format(", {} weights", weights_in_words(spec)) : "",
                     spec.cache_type != CacheType::kModel ? fmt::format(", {} KV", to_string(spec.cache_type)) : "");
}

}  // namespace lockstep::model
