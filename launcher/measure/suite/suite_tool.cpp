#include "launcher/measure/suite/suite_tool.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launcher/measure/sweep/launch_words.h"
#include "launcher/measure/sweep/starting_place.h"
#include "launcher/process/own_environment.h"
#include "launcher/process/sibling_program.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTool = "tools/suite/suite.py";

Error no_tool(const BenchCommand& command, const fs::path& program) {
  return {
      ErrorKind::kUnavailable,
      fmt::format("[launcher/bench] cannot run --suite: found no {} in a folder above {}, expected it in the source "
                  "tree of lockstep; run there: {}",
                  kTool, program.string(), quoted(suite_words(command, program, kTool)))};
}

Error no_python(const std::vector<std::string>& words) {
  return {ErrorKind::kUnavailable,
          fmt::format("[launcher/bench] cannot run --suite: cannot start python3: {}; install Python 3.10 or newer, or "
                      "run where it is: {}",
                      std::strerror(errno), quoted(words))};
}

/// Arguments for exec: pointers to the texts, and a final null. `texts` outlives them.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

std::optional<fs::path> find_suite_tool(const fs::path& program) {
  std::error_code ignored;
  for (fs::path above = program.parent_path(); above.has_relative_path(); above = above.parent_path()) {
    if (fs::exists(above / kTool, ignored)) return above / kTool;
  }
  return std::nullopt;
}

std::vector<std::string> suite_words(const BenchCommand& command, const fs::path& program, const fs::path& tool) {
  const SuiteOptions& options = command.suite;
  std::vector<std::string> words{"python3", tool.string()};
  const auto add = [&](std::string_view name, const auto& value) {
    words.push_back(fmt::format("{}={}", name, value));
  };
  add("--program", program.string());
  add("--suite", options.name);
  add("--out", options.out.string());
  if (options.quick) words.emplace_back("--quick");
  if (options.pairs) add("--pairs", *options.pairs);
  if (!options.only.empty()) add("--only", fmt::format("{}", fmt::join(options.only, ",")));
  for (const std::string& rival : options.rivals) add("--rival", rival);
  if (!options.rival_scripts.empty()) add("--rival-scripts", options.rival_scripts.string());
  if (options.checkpoint) add("--checkpoint", options.checkpoint->string());
  if (!options.launch_template.empty()) add("--launch-template", options.launch_template);
  add("--child-deadline-s", options.child_deadline_s);
  if (!command.config.empty()) add("--config", command.config.string());
  if (command.model.ranks) add("--tp", *command.model.ranks);
  if (command.engine.threads) add("--threads", *command.engine.threads);
  if (command.probe_bytes) add("--probe-mib", static_cast<int64_t>(command.probe_bytes->value) >> 20);
  return words;
}

Result<void> exec_suite_tool(const BenchCommand& command) {
  LOCKSTEP_TRY_VOID(check_not_launched("bench --suite"));
  LOCKSTEP_TRY(const LaunchTemplate launch, parse_launch_template(command.suite.launch_template, /*most_ranks=*/1));
  const fs::path program = sibling_program("lockstep");
  const std::optional<fs::path> tool = find_suite_tool(program);
  if (!tool) return no_tool(command, program);
  std::vector<std::string> words = suite_words(command, program, *tool), environment;
  for (const auto& [name, value] : scrubbed(own_environment(), launch)) environment.push_back(name + "=" + value);
  ::execvpe(words.front().c_str(), pointers(words).data(), pointers(environment).data());
  return no_python(words);
}

}  // namespace lockstep::launcher
