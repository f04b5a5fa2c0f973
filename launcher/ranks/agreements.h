// What ranks tell each other before the first collective of the model, so that a difference is a message and not a hang
// or a wrong token. Statements hold only what must be the same on every rank.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "launcher/cli/command_line.h"
#include "launcher/ranks/rank_setup.h"
#include "runtime/checkpoint/checkpoint.h"
#include "shards/shard.h"
#include "transport/bootstrap.h"

namespace lockstep::launcher {

/// Ends a phase that every rank works through on its own: fails on every rank with the error of the first rank that
/// failed, its origin kept. @collective @blocking
Result<void> all_succeeded(transport::Bootstrap& bootstrap, const Result<void>& mine);

/// Agreement 0: the program itself, before anything that it says is understood alike; a fact a line.
std::string statement_of_program();

/// What agreement 1 of every command that runs a model compares: the backend, every field of each model's spec and of
/// its static sizes, and the partition; a fact a line.
std::string statement_of_plan(const RunOptions& run, const Plan& plan);

/// Of `generate`: the plan and the command's own options.
std::string statement_before_weights(const GenerateCommand& command, const Plan& plan);

/// Agreement 1. Fails on every rank with `kFailedPrecondition` where statements differ; the message names the first
/// line that does and the keys in which `config`, the model's config.json, is another on that rank. @collective
/// @blocking
Result<void> agree_on_plan(transport::Bootstrap& bootstrap, const std::string& statement,
                           const std::filesystem::path& config);

/// Agreement 2: the ordered collectives with their sizes, and the checkpoint's headers. `checkpoint` is null when
/// weights are random.
std::string statement_after_weights(const checkpoint::Checkpoint* checkpoint, const shards::Shard& shard);

/// The contents of the tensors of `model` ("the draft model") that this rank holds whole, one a line. An uneven split
/// can leave other ranks only a part of one.
std::string whole_contents(std::string_view model, const shards::Shard& shard);

/// The lines about tensors that every rank holds whole, of this rank's `contents`. @collective @blocking
Result<std::string> common_contents(transport::Bootstrap& bootstrap, const std::string& contents);

}  // namespace lockstep::launcher
