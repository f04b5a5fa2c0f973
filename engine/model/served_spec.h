// The architecture as configured: config.json, changed by options.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/model.h"
#include "runtime/checkpoint/model_spec.h"

namespace lockstep::model {

/// Reads config.json and applies `options`. Fails as `checkpoint::read_spec`; with `kInvalidArgument` for pinned sinks
/// without a window and for invalid groups of columns, with `kUnsupported` for options that the model cannot serve.
Result<checkpoint::ModelSpec> served_spec(const std::filesystem::path& config, const ModelOptions& options);

/// The most tokens of a sequence of the model; empty: limited by its slot only (ALiBi; windows with pinned sinks in
/// every layer, where no token attends to a position beyond them).
std::optional<int64_t> longest_sequence(const checkpoint::ModelSpec& spec);

/// The capacity of a slot if no prompt or option sets one: 2048 tokens, or the model's limit if that is less.
int64_t default_capacity(const checkpoint::ModelSpec& spec);

/// The format of the matrices: "int8:64", or "dtype" for the model's own type.
std::string weights_in_words(const checkpoint::ModelSpec& spec);

/// "30 layers, hidden 576, 9 query and 3 key/value heads of 64, MLP 1536, vocabulary 49152, bf16", and ", int8:64
/// weights" and ", int8 KV" where they are in 8 bits.
std::string architecture_line(const checkpoint::ModelSpec& spec, DType dtype);

}  // namespace lockstep::model
