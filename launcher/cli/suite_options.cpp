#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string>

#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {
namespace {

/// Options of a benchmark that its suite takes, too (suite_words).
constexpr std::array kShared = {"--random-weights", "--config", "--tp", "--threads", "--probe-mib"};

}  // namespace

void add_suite_options(CLI::App& app, SuiteOptions& options) {
  begin_section(app, "Suite: a table of goals, each figure beside its floor and its aim (docs/benchmarks.md)");
  auto* suite = app.add_option("--suite", options.name, "cpu; the model is Llama-3.2-1B's shape, or that of --config")
                    ->check(CLI::IsMember({"cpu"}))
                    ->type_name("NAME");
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->needs(suite);
  };
  add("--out", options.out, "Folder of suite.json, suite.svg and suite.html; made if it is not there; default: suite")
      ->type_name("DIR");
  app.add_flag("--quick", options.quick, "Fewer pairs and repetitions: a look, not a result")->needs(suite);
  add("--pairs", options.pairs, "Pairs of each ratio; default: 5, with --quick 2")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  add("--only", options.only, "Rows to be measured, by name or by what their names begin with")
      ->delimiter(',')
      ->type_name("ROW[,ROW]");
  add("--rival", options.rivals,
      "An engine to compare with: ik, llama.cpp (PATH of its llama-bench), llama-cpp-python, vllm, transformers (PATH "
      "of a Python that has it); may be repeated")
      ->type_name("NAME=PATH")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add("--rival-scripts", options.rival_scripts, "Folder of the scripts that run rivals; default: tools/compare")
      ->type_name("DIR");
  add("--checkpoint", options.checkpoint, "Hugging Face directory for the rows about start-up")->type_name("DIR");
  add("--launch-template", options.launch_template, "What starts several ranks, as in lockstep sweep")
      ->type_name("WORDS");
  add("--child-deadline-s", options.child_deadline_s, "Seconds after which a program is ended; default: 300")
      ->check(CLI::Range(0.1, 1e6))
      ->type_name("S");
}

void check_suite_options(const CLI::App& app) {
  const CLI::Option* const suite = app.get_option("--suite");
  if (suite->count() == 0) return;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const auto needs = option->get_needs();
    const bool is_of_suite = option == suite || std::ranges::find(needs, suite) != needs.end();
    if (option->count() == 0 || is_of_suite || std::ranges::find(kShared, name) != kShared.end()) continue;
    throw CLI::ValidationError(
        name, fmt::format("found it with --suite, which chooses it for each row, expected the suite's options and {}; "
                          "omit it",
                          fmt::join(kShared, ", ")));
  }
}

}  // namespace lockstep::launcher
