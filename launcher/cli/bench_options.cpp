#include <CLI/CLI.hpp>
#include <string>

#include "launcher/cli/backend_options.h"
#include "launcher/cli/choice.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {

void add_bench_options(CLI::App& app, BenchCommand& command, int64_t& probe_mib) {
  add_model_options(app, command.model, command.engine);
  app.get_option("--model")->required(false);
  app.get_option("--batch-size")->description("Sequences at once; default: 1");
  app.get_option("--max-seq-len")->description("Tokens that a slot can hold; default: prompt and new tokens");
  begin_section(app, "Measurement");
  auto* random =
      app.add_flag("--random-weights", command.random_weights, "Generated weights for the shape of --config");
  auto* config = app.add_option("--config", command.config, "A config.json")->type_name("F");
  random->needs(config)->excludes(app.get_option("--model"));
  config->needs(random);
  const auto tokens = [&](const char* name, int64_t& value, int64_t least, const char* help) {
    app.add_option(name, value, help)->check(CLI::Range(least, kMostTokens))->capture_default_str()->type_name("N");
  };
  command.shape = {.batch = 1, .prompt_tokens = 512, .new_tokens = 64};
  tokens("--prompt-tokens", command.shape.prompt_tokens, 1, "Tokens of each prompt: random ids, always the same");
  tokens("--new-tokens", command.shape.new_tokens, 2, "Tokens to generate; end tokens are ignored");
  app.add_option("--repeats", command.repeats, "Repetitions that are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--warmup", command.warmup, "Repetitions before them")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str()
      ->type_name("N");
  app.add_option(
         "--kv", command.kv,
         "The memory of keys and values when a repetition begins: kept from the one before (default), or fresh: "
         "none, it grows as tokens arrive")
      ->transform(one_of<KvMemory>({{"kept", KvMemory::kKept}, {"fresh", KvMemory::kFresh}}))
      ->type_name("HOW");
  app.add_flag("--invariance-cost", command.invariance_cost,
               "Also run each repetition with fast numerics, and report what invariant ones cost (loads two models)")
      ->excludes(app.get_option("--numerics"));
  app.add_flag("--replay", command.replay,
               "Run the steps of each repetition once more in a bare loop, without actors and streaming, and compare");
  app.add_option("--probe-mib", probe_mib,
                 "MiB that a thread reads to measure the bandwidth; default: eight times the last-level cache, at "
                 "least 512, at most what a quarter of the free memory allows")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->type_name("N");
  app.add_option("--barrier", command.barrier,
                 "Begin each repetition together with other benchmarks: an inherited end of their barrier; for sweep "
                 "--replicas")
      ->check(CLI::NonNegativeNumber)
      ->type_name("FD");
  app.add_option("--json", command.json, "Write the result to this file")->type_name("OUT");
  app.add_option("--trace", command.trace,
                 "Write a timeline of the last repetition, all ranks (Chrome trace events; Perfetto opens it)")
      ->type_name("OUT");
  add_run_options(app, command.run, command.engine);
  add_backend_options(app, device::OptionUse::kRunning, command.engine.backend_options);
}

void add_bench(CLI::App& parent, BenchCommand& command, int64_t& probe_mib) {
  CLI::App& app = *parent.add_subcommand("bench", "Measure prefill and decode beside the machine's own limits");
  add_bench_options(app, command, probe_mib);
  add_suite_options(app, command.suite);
  app.footer("\n" + std::string(formulas()));
  app.final_callback([&app] {
    if (app.count("--model") + app.count("--random-weights") + app.count("--suite") == 0) {
      throw CLI::RequiredError("--model, --random-weights or --suite");
    }
    check_suite_options(app);
  });
}

}  // namespace lockstep::launcher
