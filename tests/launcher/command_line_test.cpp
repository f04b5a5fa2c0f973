#include "launcher/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/drivers.h"
#include "tests/launcher/parsed_words.h"

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

TEST(CommandLine, ReadsTheDefaultsOfGenerate) {
  const GenerateCommand command = generate({"--prompt", "hello"});
  EXPECT_EQ(command.model.directory, "dir");
  EXPECT_THAT(command.prompts.texts, ElementsAre("hello"));
  EXPECT_EQ(command.engine.prefill_chunk, 256);
  EXPECT_FALSE(command.model.ranks.has_value());
  EXPECT_FALSE(command.engine.slots.has_value());
  EXPECT_FALSE(command.engine.capacity.has_value());
  EXPECT_EQ(command.run.launch, Launch::kMpi);
  EXPECT_EQ(command.engine.backend, "cpu");
  EXPECT_EQ(command.engine.strictness, Strictness::kStrict);
  EXPECT_TRUE(command.generation.empty());
}

TEST(CommandLine, KeepsTheOptionsOfTheBackendThatIsChosen) {
  const std::vector<const char*> words = {
      "--prompt",          "a",    "--neuron-target",          "trn2",       "--neuron-cores", "2-3",
      "--instruction-set", "avx2", "--neuron-cc-flags-decode", "-O3 --lnc=1"};
  std::vector<const char*> on_neuron = words;
  on_neuron.insert(on_neuron.end(), {"--backend", "neuron"});
  EXPECT_THAT(generate(on_neuron).engine.backend_options,
              ElementsAre(Pair("neuron-cc-flags-decode", "-O3 --lnc=1"), Pair("neuron-cores", "2-3"),
                          Pair("neuron-target", "trn2")));
  EXPECT_THAT(generate(words).engine.backend_options, ElementsAre(Pair("instruction-set", "avx2")));
  EXPECT_TRUE(generate({"--prompt", "a"}).engine.backend_options.empty());
}

TEST(CommandLine, HoldsOptionsOfBackendsAgainstTheirRows) {
  const auto message = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"generate", "--model", "dir", "--prompt", "a"});
    return parse(std::move(words)).error().message;
  };
  EXPECT_THAT(message({"--neuron-target", "trn9"}), HasSubstr("--neuron-target"));
  EXPECT_THAT(message({"--neuron-load-deadline-s", "0"}), HasSubstr("--neuron-load-deadline-s"));
  EXPECT_THAT(message({"--compile-cache-limit", "1.5"}), HasSubstr("--compile-cache-limit"));
  EXPECT_THAT(message({"--instruction-set", "mmx"}), HasSubstr("--instruction-set"));
  EXPECT_THAT(message({"--artifacts", "a", "--retry-failed"}), HasSubstr("--artifacts"));
  EXPECT_THAT(message({"--backend", "abacus"}), HasSubstr("--backend"));
}

TEST(CommandLine, TakesSeveralPromptsInOrder) {
  EXPECT_THAT(generate({"--prompt", "a", "--prompt", "b c"}).prompts.texts, ElementsAre("a", "b c"));
}

TEST(CommandLine, KeepsTextInBracketsWhole) {
  const GenerateCommand command =
      generate({"--prompt", "[INST] one, two [/INST]", "plain", "--stop", "[END]", "--negative-prompt", "[]"});
  EXPECT_THAT(command.prompts.texts, ElementsAre("[INST] one, two [/INST]", "plain"));
  EXPECT_THAT(command.stop_strings, ElementsAre("[END]"));
  EXPECT_THAT(command.negative_prompts, ElementsAre("[]"));
}

TEST(CommandLine, KeepsEmptyTextAndRefusesAnEmptyWordThatNothingTakes) {
  EXPECT_THAT(generate({"--prompt", "", "--negative-prompt", "\x01n"}).prompts.texts, ElementsAre(""));
  EXPECT_THAT(generate({"--prompt", "p", "--negative-prompt", "\x01n"}).negative_prompts, ElementsAre("\x01n"));
  for (const char* command : {"generate", "score", "tokenize", "explain", "bench", "serve"}) {
    const Result<Command> parsed = parse({command, "--model", "dir", "", "--tp", "2", "[a,b]"});
    ASSERT_FALSE(parsed.has_value()) << command;
    EXPECT_THAT(parsed.error().message, Not(HasSubstr("\x01"))) << command;
  }
  EXPECT_THAT(parse({"generate", "--model", "dir", "--prompt", "p", "--chat", "", "--tp", "2"}).error().message,
              HasSubstr("not expected: \"\";"));
}

TEST(CommandLine, ReadsWhatDraftsWhatIsAvoidedAndWhatIsWritten) {
  const GenerateCommand command =
      generate({"--prompt", "a", "--draft-model", "small", "--negative-prompt", "n", "--negative-prompt", "m", "--stop",
                "x", "--stop-strings", "y", "--output-scores", "s.st", "--output-logits", "l.st", "--ignore-eos"});
  EXPECT_EQ(command.engine.drafting.model, "small");
  EXPECT_THAT(command.negative_prompts, ElementsAre("n", "m"));
  EXPECT_THAT(command.stop_strings, ElementsAre("x", "y"));
  EXPECT_EQ(command.output_scores, "s.st");
  EXPECT_EQ(command.output_logits, "l.st");
  EXPECT_TRUE(command.ignore_eos);
}

TEST(CommandLine, ReadsWhatChangesTheModelForEveryCommandThatRunsOne) {
  const std::vector<const char*> options = {
      "--expert-parallel", "--window", "64",         "--pinned-sinks", "4",     "--buckets", "128,512",
      "--model",           "dir",      "--numerics", "fast",           "--gqa", "batch"};
  const auto with = [&](std::vector<const char*> words) {
    words.insert(words.end(), options.begin(), options.end());
    return parse(words).value();
  };
  const auto expect_changed = [](const auto& command) {
    EXPECT_EQ(command.engine.partition.experts, partition::ExpertSplit::kWhole);
    EXPECT_EQ(command.engine.partition.numerics, partition::Numerics::kFast);
    EXPECT_EQ(command.engine.partition.gqa, partition::GqaMode::kBatch);
    EXPECT_EQ(command.model.options, (ModelOptions{.window = 64, .pinned_sinks = 4}));
    EXPECT_EQ(command.engine.token_buckets, "128,512");
  };
  expect_changed(std::get<GenerateCommand>(with({"generate", "--prompt", "a"})));
  expect_changed(std::get<ExplainCommand>(with({"explain"})));
  expect_changed(std::get<BenchCommand>(with({"bench"})));
  const GenerateCommand plain = generate({"--prompt", "a"});
  EXPECT_EQ(plain.engine.partition.experts, partition::ExpertSplit::kColumns);
  EXPECT_EQ(plain.engine.partition.numerics, partition::Numerics::kInvariant);
  EXPECT_EQ(plain.engine.partition.gqa, partition::GqaMode::kAuto);
  EXPECT_EQ(plain.model.options, ModelOptions());
  EXPECT_FALSE(plain.engine.token_buckets.has_value());
}

TEST(CommandLine, BoundsChunksOfPromptsWhereRequestsArriveWhileOthersRun) {
  const auto engine = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"engine", "--model", "dir", "--socket", "s"});
    return std::get<EngineCommand>(parse(words).value()).engine;
  };
  EXPECT_EQ(engine({}).chunk_budget_ms, 0.0);  // four decode steps
  EXPECT_EQ(engine({"--chunk-budget-ms", "12.5"}).chunk_budget_ms, 12.5);
  const auto serve = parse({"serve", "--model", "dir", "--chunk-budget-ms", "7"}).value();
  EXPECT_EQ(std::get<ServeCommand>(serve).engine.engine.chunk_budget_ms, 7.0);
  EXPECT_THAT(std::get<ServeCommand>(serve).engine_words, ElementsAre("--chunk-budget-ms", "7", "--model", "dir"));
  EXPECT_FALSE(generate({"--prompt", "a"}).engine.chunk_budget_ms.has_value());
  const auto refused = parse({"engine", "--model", "dir", "--socket", "s", "--chunk-budget-ms", "-1"});
  EXPECT_THAT(refused.error().message, HasSubstr("--chunk-budget-ms"));
}

TEST(CommandLine, TakesTheWordsOfTransformersNeuronx) {
  const GenerateCommand command = generate({"--prompt", "a", "--tp-degree", "4", "--amp", "bf16", "--n-positions",
                                            "2048", "--context-length-estimate", "512,256", "--batch-size", "8,1,4,4"});
  EXPECT_EQ(command.model.ranks, 4);
  EXPECT_EQ(command.model.options.dtype, DType::kBFloat16);
  EXPECT_EQ(command.engine.capacity, 2048);
  EXPECT_THAT(command.engine.context_buckets, ElementsAre(256, 512));
  EXPECT_THAT(command.engine.batch_sizes, ElementsAre(1, 4, 8));
  EXPECT_EQ(command.engine.slots, 8);
  EXPECT_FALSE(command.engine.token_buckets.has_value());
  const GenerateCommand lists = generate({"--prompt", "a", "--n-positions", "128,3000,512", "--amp", "f16"});
  EXPECT_EQ(lists.engine.capacity, 3000);
  EXPECT_EQ(lists.engine.token_buckets, "128,512,3000");
  EXPECT_EQ(lists.model.options.dtype, DType::kFloat16);
  EXPECT_THAT(generate({"--prompt", "a", "--context-length-estimate", "0"}).engine.context_buckets, ElementsAre(0));
  const GenerateCommand one = generate({"--prompt", "a", "--batch-size", "5", "--dtype", "float32"});
  EXPECT_EQ(one.engine.slots, 5);
  EXPECT_TRUE(one.engine.batch_sizes.empty());
  EXPECT_EQ(one.model.options.dtype, DType::kFloat32);
}

TEST(CommandLine, ReadsTheFormatOfMatrices) {
  const auto weights_of = [](const char* weights) {
    return generate({"--prompt", "a", "--weights", weights}).model.options.weights;
  };
  EXPECT_EQ(weights_of("int8"), served_format("int8:64"));
  EXPECT_EQ(weights_of("int8:32"), served_format("int8:32"));
  EXPECT_EQ(weights_of("q4"), served_format("q4:32"));
  EXPECT_EQ(weights_of("q8:128"), served_format("q8:128"));
  for (const char* wrong : {"int8:", "int8:33", "int8:0", "int8:32x", "int4", "q4:6", "q5", "dtype"}) {
    const auto refused = parse({"generate", "--model", "dir", "--prompt", "a", "--weights", wrong});
    ASSERT_FALSE(refused.has_value()) << wrong;
    EXPECT_THAT(refused.error().message, HasSubstr("expected q4, q8 or int8")) << wrong;
  }
}

TEST(CommandLine, ReadsTheTypeOfKeysAndValues) {
  const auto type_of = [](const char* text) {
    return generate({"--prompt", "a", "--kv-dtype", text}).model.options.kv_dtype;
  };
  EXPECT_EQ(generate({"--prompt", "a"}).model.options.kv_dtype, CacheType::kModel);
  EXPECT_EQ(type_of("int8"), CacheType::kInt8);
  EXPECT_EQ(type_of("fp8"), CacheType::kFp8);
  const auto refused = parse({"generate", "--model", "dir", "--prompt", "a", "--kv-dtype", "int4"});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("--kv-dtype"));
}

TEST(CommandLine, ReadsWhatIsMultipliedByCodes) {
  const auto activations_of = [](const char* text) {
    return generate({"--prompt", "a", "--weights", "q4", "--activations", text}).model.options.activations;
  };
  EXPECT_EQ(activations_of("int8"), ActivationFormat::kInt8ByGroup);
  EXPECT_EQ(activations_of("elements"), ActivationFormat::kElements);
  EXPECT_EQ(activations_of("bf16"), ActivationFormat::kElements);
  EXPECT_FALSE(parse({"generate", "--model", "dir", "--prompt", "a", "--activations", "int4"}).has_value());
}

TEST(CommandLine, RefusesShapesThatMakeNoSenseAndSaysWhatDoes) {
  const auto message = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"generate", "--model", "dir", "--prompt", "a"});
    const auto parsed = parse(words);
    EXPECT_FALSE(parsed.has_value());
    return parsed.has_value() ? "" : parsed.error().message;
  };
  EXPECT_THAT(message({"--amp", "f8"}), HasSubstr("bfloat16"));
  EXPECT_THAT(message({"--tp-degree", "0"}), HasSubstr("--tp"));
  for (const char* sizes : {"0", "1,", ",1", "1;2", "two", "70000", ""}) {
    EXPECT_THAT(message({"--batch-size", sizes}), HasSubstr("--batch-size")) << sizes;
  }
  EXPECT_THAT(message({"--batch-size", "0"}), HasSubstr("a number from 1 to 65536, or several such as 1,4,8"));
  EXPECT_THAT(message({"--n-positions", "-1"}), HasSubstr("--max-seq-len"));
  EXPECT_THAT(message({"--context-length-estimate", "0,64"}), HasSubstr("0 alone"));
  EXPECT_THAT(message({"--context-length-estimate", "64", "--prefill-chunk", "8"}), HasSubstr("--prefill-chunk"));
  EXPECT_THAT(message({"--n-positions", "64,128", "--buckets", "auto"}), HasSubstr("--buckets"));
  EXPECT_THAT(message({"--buckets", "auto", "--n-positions", "64,128"}), HasSubstr("--buckets"));
}

TEST(CommandLine, ReadsHowToRun) {
  const GenerateCommand command = generate(
      {"--ids-file", "x.json", "--launch", "threads", "--tp", "3", "--threads", "2", "--no-strict", "--communicator",
       "shm", "--deadline-s", "5", "--instruction-set", "avx2", "--bind-threads", "none", "--memory-budget", "1000"});
  EXPECT_THAT(command.engine.backend_options, ElementsAre(Pair("instruction-set", "avx2")));
  EXPECT_EQ(command.run.launch, Launch::kThreads);
  EXPECT_EQ(command.model.ranks, 3);
  EXPECT_EQ(command.engine.threads, 2);
  EXPECT_EQ(command.engine.strictness, Strictness::kLenient);
  EXPECT_EQ(command.engine.communicator, "shm");
  EXPECT_EQ(command.run.deadline_s, 5.0);
  EXPECT_EQ(command.engine.binding, ThreadBinding::kNone);
  EXPECT_EQ(command.engine.memory_budget, Bytes(1000));
}

TEST(CommandLine, ReadsWhatIsWatched) {
  EXPECT_FALSE(generate({"--prompt", "a", "--trace-events", "5"}).engine.observe.is_on());
  EXPECT_TRUE(generate({"--prompt", "a", "--profile"}).engine.observe.is_on());
  const ObserveOptions observe = generate({"--prompt", "a", "--trace", "t.json", "--trace-events", "5", "--metrics",
                                           "m.prom", "--metrics-interval-s", "0.5"})
                                     .engine.observe;
  EXPECT_EQ(observe.trace, "t.json");
  EXPECT_EQ(observe.trace_events, 5);
  EXPECT_EQ(observe.metrics, "m.prom");
  EXPECT_EQ(observe.metrics_interval_s, 0.5);
  for (const auto& [option, value] : {std::pair{"--trace-events", "0"}, {"--metrics-interval-s", "0"}}) {
    const auto refused = parse({"generate", "--model", "dir", "--prompt", "a", option, value});
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().message, HasSubstr(option));
  }
}

TEST(CommandLine, ReadsWhereCompiledStepsAre) {
  const auto values =
      generate({"--prompt", "a", "--backend", "neuron", "--compile-cache", "c", "--compile-cache-remote", "s3://b/p",
                "--compile-cache-remote", "/shared", "--require-cached", "--retry-failed", "--compile-wait-s", "5",
                "--compile-cache-limit", "9"})
          .engine.backend_options;
  EXPECT_THAT(values, ElementsAre(Pair("compile-cache", "c"), Pair("compile-cache-limit", "9"),
                                  Pair("compile-cache-remote", "s3://b/p\n/shared"), Pair("compile-wait-s", "5"),
                                  Pair("require-cached", "true"), Pair("retry-failed", "true")));
  const auto bench = parse({"bench", "--model", "d", "--backend", "neuron", "--artifacts", "a"}).value();
  EXPECT_THAT(std::get<BenchCommand>(bench).engine.backend_options, ElementsAre(Pair("artifacts", "a")));
}

TEST(CommandLine, RefusesWhatMakesNoSenseAndNamesTheOption) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"generate", "--prompt", "a"}, "--model"},
      {{"generate", "--model", "d"}, "--prompt"},
      {{"generate", "--model", "d", "--prompt", "a", "--ids-file", "f"}, "--ids-file"},
      {{"generate", "--model", "d", "--prompt", "a", "--tp", "0"}, "--tp"},
      {{"generate", "--model", "d", "--prompt", "a", "--tp", "two"}, "--tp"},
      {{"generate", "--model", "d", "--prompt", "a", "--prefill-chunk", "0"}, "--prefill-chunk"},
      {{"generate", "--model", "d", "--prompt", "a", "--batch-size", "-1"}, "--batch-size"},
      {{"generate", "--model", "d", "--prompt", "a", "--max-new-tokens", "0"}, "--max-new-tokens"},
      {{"generate", "--model", "d", "--prompt", "a", "--dtype", "int3"}, "--dtype"},
      {{"generate", "--model", "d", "--prompt", "a", "--backend", "tpu"}, "--backend"},
      {{"generate", "--model", "d", "--prompt", "a", "--temperature", "hot"}, "--temperature"},
      {{"generate", "--model", "d", "--prompt", "a", "--deadline-s", "0"}, "--deadline-s"},
      {{"generate", "--model", "d", "--prompt", "a", "--window", "0"}, "--window"},
      {{"generate", "--model", "d", "--prompt", "a", "--pinned-sinks", "-1"}, "--pinned-sinks"},
      {{"generate", "--model", "d", "--prompt", "a", "--num-beams", "many"}, "--num-beams"},
      {{"generate", "--model", "d", "--prompt", "a", "--artifacts", "a", "--compile-cache", "c"}, "--artifacts"},
      {{"generate", "--model", "d", "--prompt", "a", "--artifacts", "a", "--retry-failed"}, "--artifacts"},
      {{"generate", "--model", "d", "--prompt", "a", "--compile-wait-s", "-1"}, "--compile-wait-s"},
      {{"generate", "--model", "d", "--prompt", "a", "--frobnicate"}, "frobnicate"},
      {{"sing"}, "sing"},
      {{}, "subcommand"},
  };
  for (const auto& [words, named] : cases) {
    const auto result = parse(words);
    ASSERT_FALSE(result.has_value()) << named;
    EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(result.error().message, HasSubstr(named));
  }
}

TEST(CommandLine, PrintsHelpAndVersionInsteadOfFailing) {
  EXPECT_THAT(std::get<PrintedText>(parse({"--help"}).value()).text, HasSubstr("generate"));
  EXPECT_THAT(std::get<PrintedText>(parse({"generate", "--help"}).value()).text, HasSubstr("--prefill-chunk"));
  const std::string version = std::get<PrintedText>(parse({"--version"}).value()).text;
  EXPECT_THAT(version, StartsWith("lockstep 0.1.0\n"));
  EXPECT_THAT(version, HasSubstr("backends  cpu"));
  const auto [listed, missing] = [&] {
    const size_t end = version.find("\nbuild");
    const size_t without = std::min(version.find("; without"), end);
    return std::pair(version.substr(0, without), version.substr(without, end - without));
  }();
  for (const device::BackendDriver* driver : engine::drivers()) {
    EXPECT_THAT(driver->available().has_value() ? listed : missing, HasSubstr(driver->name()));
  }
  EXPECT_THAT(version, HasSubstr("MPI: "));
}

TEST(CommandLine, GuessesWhatAMisspeltWordWasMeantToBe) {
  const auto message = [](std::vector<const char*> words) { return parse(std::move(words)).error().message; };
  EXPECT_THAT(message({"genrate"}), HasSubstr("did you mean generate?"));
  EXPECT_THAT(message({"sing"}), Not(HasSubstr("did you mean")));
  EXPECT_THAT(message({"generate", "--model", "d", "--promt", "a"}), HasSubstr("did you mean --prompt?"));
  EXPECT_THAT(message({"generate", "--model", "d", "--prompt", "a", "--max-new-token=3"}),
              HasSubstr("did you mean --max-new-tokens?"));
  EXPECT_THAT(message({"generate", "--model", "d", "--prompt", "a", "--frobnicate"}), Not(HasSubstr("did you mean")));
}

}  // namespace
}  // namespace lockstep::launcher
