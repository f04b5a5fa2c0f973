#include "launcher/batch/watched_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace lockstep::launcher {
namespace {

/// Options of mpirun, mpiexec and srun that set the number of ranks.
constexpr std::string_view kRankOptions[] = {"-n", "-np", "--np", "--n", "--ntasks"};

Error cannot_watch(std::string_view found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument, fmt::format("[launcher] supervise: found {}, expected {}", found, expected)};
}

std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size() || number < 1) return std::nullopt;
  return number;
}

/// A number that is a separate word, or follows the option's name in the same word.
struct NumberPlace {
  size_t word = 0;
  size_t begin = 0;  // of the number within the word
  int number = 1;
};

/// The value of one of `names` among words[begin, end).
std::optional<NumberPlace> find_number(const std::vector<std::string>& words, size_t begin, size_t end,
                                       std::span<const std::string_view> names) {
  for (size_t i = begin; i < end; ++i) {
    for (const std::string_view name : names) {
      if (words[i] == name && i + 1 < end) {
        if (const auto number = number_of(words[i + 1])) return NumberPlace{i + 1, 0, *number};
      }
      const bool is_long = name.starts_with("--");
      const std::string prefix = is_long ? fmt::format("{}=", name) : std::string(name);
      if (!words[i].starts_with(prefix)) continue;
      if (const auto number = number_of(words[i].substr(prefix.size()))) return NumberPlace{i, prefix.size(), *number};
    }
  }
  return std::nullopt;
}

std::optional<NumberPlace> ranks_of_launcher(const std::vector<std::string>& words, size_t program) {
  return find_number(words, 0, program, kRankOptions);
}

std::optional<NumberPlace> degree_of(const std::vector<std::string>& words, size_t program) {
  constexpr std::string_view kNames[] = {"--tp", "--tp-degree"};
  return find_number(words, program, words.size(), kNames);
}

void put_number(std::vector<std::string>& words, const NumberPlace& place, int number) {
  words[place.word].replace(place.begin, std::string::npos, fmt::format("{}", number));
}

}  // namespace

Result<WatchedCommand> parse_watched_command(std::vector<std::string> words, const ParseGenerate& parse) {
  const auto generate = std::ranges::find(words, "generate");
  if (generate == words.end() || generate == words.begin()) {
    return cannot_watch(fmt::format("the command \"{}\"", fmt::join(words, " ")),
                        "[mpirun -n P] lockstep generate --prompts-file F --journal DIR …");
  }
  WatchedCommand command;
  command.program = static_cast<size_t>(generate - words.begin()) - 1;
  LOCKSTEP_TRY(command.generate, parse(std::span(words).subspan(command.program)));
  if (!command.generate.journal || !command.generate.prompts.jobs_file) {
    return cannot_watch("a job without a journal",
                        "--prompts-file F --journal DIR: without them a restart begins again at the first row");
  }
  if (command.generate.run.launch != Launch::kMpi) {
    command.ranks = command.generate.model.ranks.value_or(1);
  } else if (const auto place = ranks_of_launcher(words, command.program)) {
    command.ranks = place->number;
  } else if (command.program == 0) {
    command.ranks = 1;
  }
  command.words = std::move(words);
  return command;
}

std::optional<int> ranks_without_a_replica(const WatchedCommand& command) {
  if (!command.ranks || !command.generate.model.ranks) return std::nullopt;
  const int degree = *command.generate.model.ranks;
  const bool has_replicas = *command.ranks > degree && *command.ranks % degree == 0;
  return has_replicas ? std::optional(*command.ranks - degree) : std::nullopt;
}

Result<WatchedCommand> with_ranks(const WatchedCommand& command, int ranks, const ParseGenerate& parse) {
  std::vector<std::string> words = command.words;
  const auto place = ranks_of_launcher(words, command.program);
  const auto degree = degree_of(words, command.program);
  const bool starts_ranks = command.generate.run.launch != Launch::kMpi;
  if (!(starts_ranks ? degree : place)) {
    return cannot_watch(fmt::format("the command \"{}\"", fmt::join(words, " ")),
                        "a number of ranks that can be lowered: -n P, -np P or --ntasks P");
  }
  if (place) put_number(words, *place, ranks);
  if (degree && degree->number > ranks) put_number(words, *degree, ranks);
  return parse_watched_command(std::move(words), parse);
}

std::vector<std::string> with_exit_record(const WatchedCommand& command, const std::filesystem::path& folder) {
  std::vector<std::string> words = command.words;
  if (!command.generate.run.exit_record) words.insert(words.end(), {"--exit-record", folder.string()});
  return words;
}

}  // namespace lockstep::launcher
