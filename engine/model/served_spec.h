// The architecture as it is served: what config.json says, changed by the options that alter the architecture itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/model.h"
#include "runtime/checkpoint/model_spec.h"

namespace lockstep::model {

/// Reads config.json and applies `options`. Fails as `checkpoint::read_spec`; with `kInvalidArgument` for pinned sinks
/// without a window and for groups of 8-bit integers that make no sense, with `kUnsupported` for options that the model
/// cannot serve.
Result<checkpoint::ModelSpec> served_spec(const std::filesystem::path& config, const ModelOptions& options);

/// Tokens that a sequence of the model may have; empty: as many as its slot holds (ALiBi; windows with pinned sinks in
/// every layer, where no token meets a position beyond them).
std::optional<int64_t> longest_sequence(const checkpoint::ModelSpec& spec);

/// The capacity of a slot where no prompt and no option says one: 2048 tokens, or what the model can.
int64_t default_capacity(const checkpoint::ModelSpec& spec);

/// The form of the matrices as served: "int8:64", or "dtype" for the model's own type.
std::string weights_in_words(const checkpoint::ModelSpec& spec);

/// "30 layers, hidden 576, 9 query and 3 key/value heads of 64, MLP 1536, vocabulary 49152, bf16", and ", int8:64
/// weights" where they are in 8 bits.
std::string architecture_line(const checkpoint::ModelSpec& spec, DType dtype);

}  // namespace lockstep::model
