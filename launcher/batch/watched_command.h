// The words of a supervised command, and its changes at a restart. Pure.
//   mpirun -n 4 --bind-to core │ lockstep generate --model M --tp 4 --journal J
//          ^^^^ ranks          │                            ^^^^^^ ranks          exit records: added at the end
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
/// parser does.
using ParseGenerate = std::function<Result<GenerateCommand>(std::span<const std::string> words)>;

struct WatchedCommand {
  std::vector<std::string> words;
  size_t program = 0;        // the index of lockstep itself; before it: the launcher and its options
  GenerateCommand generate;  // parsed from the words from there on
  std::optional<int> ranks;  // from the launcher's words or --launch threads; empty: not given
};

/// Reads `words`. Fails with `kInvalidArgument` if they do not run a batch job with a journal, or if Lockstep would
/// reject its options.
Result<WatchedCommand> parse_watched_command(std::vector<std::string> words, const ParseGenerate& parse);

/// The ranks of the command with one replica less; empty: a launcher's ranks are one group, or their number is not
/// given. Pure.
std::optional<int> ranks_without_a_replica(const WatchedCommand& command);

/// The same command with `ranks` ranks, in the launcher's words; --tp is lowered where it is greater. Fails with
/// `kInvalidArgument` if the words do not set a number of ranks.
Result<WatchedCommand> with_ranks(const WatchedCommand& command, int ranks, const ParseGenerate& parse);

/// The words with --exit-record `folder`, unless they have one.
std::vector<std::string> with_exit_record(const WatchedCommand& command, const std::filesystem::path& folder);

}  // namespace lockstep::launcher
