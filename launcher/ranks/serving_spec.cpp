#include "launcher/ranks/serving_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/core/int8_groups.h"
#include "shards/buckets.h"

namespace lockstep::launcher {
namespace {

using checkpoint::ModelSpec;
using checkpoint::Positions;

Error refused(ErrorKind kind, std::string_view option, const std::string& found, std::string_view expected) {
  return {kind, fmt::format("[launcher] {}: found {}, expected {}", option, found, expected)};
}

bool has_window(const ModelSpec& spec) {
  return std::ranges::any_of(spec.windows, [](int64_t window) { return window > 0; });
}

bool has_window_everywhere(const ModelSpec& spec) {
  return !spec.windows.empty() && std::ranges::all_of(spec.windows, [](int64_t window) { return window > 0; });
}

/// A layer with a window may turn by another rope than one without: there the window is part of what was trained.
Result<void> set_window(ModelSpec& spec, int64_t window) {
  if (spec.local_rope) {
    return refused(
        ErrorKind::kUnsupported, "--window", fmt::format("{}", window),
        fmt::format("a model whose layers share one rope; in {} those with a window have their own; leave it "
                    "out",
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
  if (spec.positions != Positions::kRotary) {
    return refused(ErrorKind::kUnsupported, "--pinned-sinks", found,
                   fmt::format("a model with rotary positions; {} has others; leave it out", spec.model_type));
  }
  spec.pinned_sinks = sinks;
  return ok();
}

/// Columns that share a scale where --weights says only int8: docs/quantization.md tells why.
constexpr int64_t kDefaultInt8Group = 64;

/// Rows of prefill steps, of which there are never more than `most`; token by token is a step of one.
std::vector<int64_t> fitting(std::vector<int64_t> buckets, int64_t most) {
  for (int64_t& bucket : buckets) bucket = std::clamp<int64_t>(bucket, 1, most);
  buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
  return buckets;
}

/// "int8" or "int8:GROUP".
Result<void> set_weights(ModelSpec& spec, const std::string& weights) {
  constexpr std::string_view kPrefix = "int8:";
  int64_t group = 0;
  if (weights == "int8") {
    group = kDefaultInt8Group;
  } else if (weights.starts_with(kPrefix)) {
    const char* const end = weights.data() + weights.size();
    const auto [stop, failure] = std::from_chars(weights.data() + kPrefix.size(), end, group);
    if (failure != std::errc{} || stop != end) group = 0;
  }
  if (!is_int8_group(group)) {
    return refused(ErrorKind::kInvalidArgument, "--weights", weights,
                   fmt::format("int8 or int8:GROUP, a GROUP of columns being a multiple of {} up to {}",
                               kLeastInt8Group, kMostInt8Group));
  }
  if (spec.experts > 0) {
    return refused(
        ErrorKind::kUnsupported, "--weights", weights,
        fmt::format("a model without experts; those of {} stay in the model's type; leave it out", spec.model_type));
  }
  spec.int8_group = group;
  return ok();
}

}  // namespace

Result<ModelSpec> serving_spec(const ModelOptions& options, const std::filesystem::path& config) {
  LOCKSTEP_TRY(ModelSpec spec, checkpoint::read_spec(config));
  if (options.window) LOCKSTEP_TRY_VOID(set_window(spec, *options.window));
  if (options.pinned_sinks > 0) LOCKSTEP_TRY_VOID(pin_sinks(spec, options.pinned_sinks));
  if (options.weights) LOCKSTEP_TRY_VOID(set_weights(spec, *options.weights));
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

probe::Precision precision_of(const ModelSpec& spec, DType dtype) {
  if (spec.int8_group > 0) return probe::Precision::kInt8;
  return dtype == DType::kBFloat16 ? probe::Precision::kBFloat16 : probe::Precision::kFloat32;
}

std::string architecture_line(const ModelSpec& spec, DType dtype) {
  return fmt::format("{} layers, hidden {}, {} query and {} key/value heads of {}, MLP {}, vocabulary {}, {}{}",
                     spec.layers, spec.hidden_size, spec.query_heads, spec.key_value_heads, spec.head_dim,
                     spec.intermediate_size, spec.vocabulary, to_string(dtype),
                     spec.int8_group > 0 ? fmt::format(", {} weights", weights_in_words(spec)) : "");
}

Result<DividedModel> divide_model(const ModelOptions& options, const checkpoint::ModelSpec& spec, int ranks,
                                  std::optional<int64_t> slots) {
  DividedModel model;
  LOCKSTEP_TRY(model.partition, partition::make_partition(spec, ranks, options.experts, options.numerics));
  if (options.gqa == partition::GqaMode::kAuto) return model;
  LOCKSTEP_TRY(const partition::GqaChoice choice, partition::choose_gqa(options.gqa, spec, ranks, slots));
  LOCKSTEP_TRY(model.partition, partition::make_partition(spec, ranks, options.experts, options.numerics, choice.mode));
  if (!choice.why_not.empty()) {
    model.warning = fmt::format("--gqa {}: {}; it is {} instead", partition::name_of(options.gqa), choice.why_not,
                                partition::name_of(choice.mode));
  }
  return model;
}

Result<shards::ShardOptions> shard_options(const ModelOptions& options, const ModelSpec& spec, int64_t slots,
                                           int64_t capacity) {
  shards::ShardOptions shard{.slots = slots,
                             .chunk = std::min(options.prefill_chunk, capacity * slots),
                             .capacity = capacity,
                             .dtype = spec.dtype};
  if (options.dtype) {
    LOCKSTEP_TRY(shard.dtype, dtype_from_config_name(*options.dtype));
  }
  if (options.window && *options.window + options.pinned_sinks > capacity) {
    return refused(ErrorKind::kInvalidArgument, "--window",
                   options.pinned_sinks == 0
                       ? fmt::format("{}", *options.window)
                       : fmt::format("{} and --pinned-sinks {}", *options.window, options.pinned_sinks),
                   fmt::format("at most {}{}, the capacity of a slot; raise --max-seq-len or lower it", capacity,
                               options.pinned_sinks == 0 ? "" : " together"));
  }
  if (slots == options.batch_size) shard.batch_sizes = options.batch_sizes;
  if (options.buckets) {
    LOCKSTEP_TRY(shard.token_buckets, shards::parse_token_buckets(*options.buckets, capacity));
    shard.context_buckets = shards::context_buckets(shard.token_buckets);
  }
  const bool is_explicit = !options.context_buckets.empty();
  if (is_explicit) shard.context_buckets = fitting(options.context_buckets, capacity * slots);
  if (shard.context_buckets.empty()) return shard;
  shard.chunk = shard.context_buckets.back();
  if (is_explicit && shard.context_buckets.size() == 1) shard.context_buckets.clear();  // like --prefill-chunk
  return shard;
}

}  // namespace lockstep::launcher
