// The model as it is served: what config.json says, changed by the options that alter the architecture itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launcher/cli/command_line.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/probe/probe.h"
#include "shards/shard_graphs.h"

namespace lockstep::launcher {

/// Reads config.json and applies --window, --pinned-sinks and --weights. Fails as `checkpoint::read_spec`; with
/// `kInvalidArgument` for pinned sinks without a window and for --weights that make no sense, with `kUnsupported` for
/// options that the model cannot serve.
Result<checkpoint::ModelSpec> serving_spec(const ModelOptions& options, const std::filesystem::path& config);

/// Tokens that a sequence of the model may have; empty: as many as its slot holds (ALiBi; windows with pinned sinks in
/// every layer, where no token meets a position beyond them).
std::optional<int64_t> longest_sequence(const checkpoint::ModelSpec& spec);

/// The capacity of a slot where no prompt and no option says one: 2048 tokens, or what the model can.
int64_t default_capacity(const checkpoint::ModelSpec& spec);

/// What --weights says, as it is served: "int8:64", or "dtype" for matrices of the model's type.
std::string weights_in_words(const checkpoint::ModelSpec& spec);

/// What its matrix products multiply: the peak of that is their limit where the machine has it, else that of float32.
probe::Precision precision_of(const checkpoint::ModelSpec& spec, DType dtype);

/// "30 layers, hidden 576, 9 query and 3 key/value heads of 64, MLP 1536, vocabulary 49152, bf16", and ", int8:64
/// weights" where they are in 8 bits.
std::string architecture_line(const checkpoint::ModelSpec& spec, DType dtype);

/// A model divided between ranks.
struct DividedModel {
  partition::Partition partition;
  std::string warning;  // why --gqa is not what was asked for, and what it is; empty: it is
};

/// Divides `spec` as the options say, for `slots` sequences (none: not known yet). Fails as `make_partition`.
Result<DividedModel> divide_model(const ModelOptions& options, const checkpoint::ModelSpec& spec, int ranks,
                                  std::optional<int64_t> slots);

/// The static sizes of a shard of `slots` slots of `capacity` tokens: chunk, buckets and type as the options say. Fails
/// with `kInvalidArgument` for a --window beyond the capacity and for buckets that do not fit it.
Result<shards::ShardOptions> shard_options(const ModelOptions& options, const checkpoint::ModelSpec& spec,
                                           int64_t slots, int64_t capacity);

}  // namespace lockstep::launcher
