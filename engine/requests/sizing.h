// Lengths of answers, and their slots. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/options.h"
#include "lockstep/request.h"

namespace lockstep::requests {

/// Tokens of a prompt or of its negative prompt, which runs next to it: the larger number.
int64_t longer_length(const Prompt& prompt);

/// Slots that one request with `config` occupies.
int64_t rows_of(const GenerationConfig& config);

/// Tokens that a slot must hold for a prompt: the last new token is never cached. `most` is the model's limit.
int64_t wanted_capacity(const GenerationConfig& config, const Prompt& prompt, int64_t most);

/// Whether a configured length must fit the slot (the caller's) or is cut to it (the file's):
/// generation_config.json is written without regard to slots.
enum class LengthFrom { kCaller, kFile };

/// The new tokens of a prompt in a slot of `capacity` tokens. Fails with `kInvalidArgument` when they do not fit.
Result<int32_t> budget_of(const GenerationConfig& config, LengthFrom from, const Prompt& prompt, int64_t capacity);

/// Rejects a prompt or negative prompt that a model cannot take: without tokens, with an id outside `vocabulary`, or
/// with more tokens than `capacity`.
Result<void> check_prompt(const Prompt& prompt, int64_t vocabulary, int64_t capacity);

/// Rejects a prompt with masked ids inside if removing them differs from transformers: windows and the length at which
/// longrope changes its factors count masked ids. Fails with `kUnsupported` if the prompt with its `budget` new tokens
/// exceeds such a length.
Result<void> check_masked(const Prompt& prompt, int32_t budget, const ModelSpec& spec);

/// The error for options that exclude each other.
Error contradiction(const std::string& found, std::string_view expected);

/// The drafts that `config` requests, with the draft model of `options` or by lookup; none without a request. Fails
/// with `kInvalidArgument` together with options that the host has to apply.
Result<Drafting> drafting_of(const GenerationConfig& config, const Drafting& options);

}  // namespace lockstep::requests
