// The command that is supervised, as words: where the launcher's end and Lockstep's begin, and what a restart changes.
// Pure.
//
//   mpirun -n 4 --bind-to core │ lockstep generate --model M --tp 4 --journal J
//          ^^^^ ranks          │                            ^^^^^^ and here       exit records: added at the end
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/generate/generate_command.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Reads the words of a `generate` command, the program's name first. Fails with `kInvalidArgument` as the command line
/// does.
using ParseGenerate = std::function<Result<GenerateCommand>(std::span<const std::string> words)>;

struct WatchedCommand {
  std::vector<std::string> words;
  size_t program = 0;        // the index of lockstep itself; before it: the launcher and its options
  GenerateCommand generate;  // what the words from there on say
  std::optional<int> ranks;  // of the launcher's words, or of --launch threads; empty: they do not say
};

/// Reads `words`. Fails with `kInvalidArgument` when they run no batch job with a journal, or when Lockstep would
/// refuse its options.
Result<WatchedCommand> parse_watched_command(std::vector<std::string> words, const ParseGenerate& parse);

/// The same command with `ranks` ranks, in the launcher's words and in --tp. Fails with `kInvalidArgument` when the
/// words do not say how many there are.
Result<WatchedCommand> with_ranks(const WatchedCommand& command, int ranks, const ParseGenerate& parse);

/// The words with --exit-record `folder`, unless they have one.
std::vector<std::string> with_exit_record(const WatchedCommand& command, const std::filesystem::path& folder);

}  // namespace lockstep::launcher
