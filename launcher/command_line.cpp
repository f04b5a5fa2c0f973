#include "launcher/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "launcher/generation_options.h"

namespace lockstep::launcher {
namespace {

constexpr const char* kVersion = "lockstep " LOCKSTEP_VERSION;
constexpr int64_t kMostTokens = int64_t{1} << 24;  // of a chunk or a slot: keeps every product inside 64 bits

/// What is added from now on stands below `title` in --help.
void begin_section(CLI::App& app, const std::string& title) { app.option_defaults()->group(title); }

void add_model_options(CLI::App& app, ModelOptions& options) {
  begin_section(app, "Model");
  app.add_option("--model", options.model, "Hugging Face directory: config.json, *.safetensors, tokenizer.json")
      ->required()
      ->type_name("DIR");
  app.add_option("--tp", options.tp, "Tensor-parallel degree; default: the number of ranks")
      ->check(CLI::Range(1, 4096))
      ->type_name("P");
  app.add_option("--batch-size", options.batch_size, "Sequences at once; default: the number of prompts, at most 8")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->type_name("B");
  app.add_option("--prefill-chunk", options.prefill_chunk, "Token rows of a prefill step")
      ->check(CLI::Range(int64_t{1}, kMostTokens))
      ->capture_default_str()
      ->type_name("C");
  app.add_option("--max-seq-len", options.max_seq_len, "Tokens that a slot can hold; default: what the prompts need")
      ->check(CLI::Range(int64_t{1}, kMostTokens))
      ->type_name("L");
  app.add_option("--dtype", options.dtype, "float32, bfloat16 or float16; default: the checkpoint's")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->type_name("TYPE");
  app.add_flag_callback(
      "--expert-parallel", [&options] { options.experts = partition::ExpertSplit::kWhole; },
      "Give whole experts to ranks, instead of columns of every expert");
  app.add_option("--window", options.window,
                 "Tokens that a token sees, itself included, in every layer; default: what the model says")
      ->check(CLI::Range(int64_t{1}, kMostTokens))
      ->type_name("W");
  app.add_option("--pinned-sinks", options.pinned_sinks,
                 "First tokens that stay visible beyond windows (StreamingLLM); default: none")
      ->check(CLI::Range(int64_t{1}, kMostTokens))
      ->type_name("N");
  app.add_option(
         "--buckets", options.buckets,
         "Compile graphs for several lengths: auto, or lengths such as 128,512,2048 (prefill chunks are half as "
         "long, instead of --prefill-chunk); for backends that cannot stop at the length in use")
      ->type_name("auto|L[,L]");
}

void add_run_options(CLI::App& app, RunOptions& options) {
  begin_section(app, "Ranks");
  app.add_option("--launch", options.launch,
                 "mpi (one process per rank, default) or threads (all ranks in this process)")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Launch>{{"mpi", Launch::kMpi}, {"threads", Launch::kThreads}}))
      ->type_name("HOW");
  app.add_option("--threads", options.threads, "Compute threads of a rank; default: the cores that it was given")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--backend", options.backend, "cpu or reference")
      ->check(CLI::IsMember({"cpu", "reference"}))
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--communicator", options.communicator, "auto, shm, mpi or loopback")
      ->check(CLI::IsMember({"auto", "shm", "mpi", "loopback"}))
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--deadline-s", options.deadline_s, "Seconds that one wait between ranks may take")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str()
      ->type_name("S");
  app.add_option("--exit-record", options.exit_record, "Folder for rank-R.json: how each process ended")
      ->type_name("DIR");
  app.add_option("--memory-budget", options.memory_budget, "Bytes that a rank may use for weights and states")
      ->check(CLI::PositiveNumber)
      ->type_name("BYTES");
  app.add_flag(
      "--strict,!--no-strict",
      [&options](int64_t count) { options.strictness = count > 0 ? Strictness::kStrict : Strictness::kLenient; },
      "A compilation after warm-up is an error (default)");
  app.add_option("--peer-detection", options.peer_detection, "off: do not notice lost ranks (for tests)")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Detection>{{"on", Detection::kOn}, {"off", Detection::kOff}}))
      ->type_name("on|off");
}

void add_generate(CLI::App& parent, GenerateCommand& command) {
  CLI::App& app = *parent.add_subcommand("generate", "Continue prompts");
  add_model_options(app, command.model);
  begin_section(app, "Prompts");
  auto* prompts = app.add_option_group("prompts", "Exactly one of these");
  prompts->add_option("--prompt", command.prompts.texts, "Text; may be given again")->type_name("TEXT");
  prompts->add_option("--prompt-file", command.prompts.file, "A file that holds one prompt")->type_name("F");
  prompts->add_option("--ids-file", command.prompts.ids_file, "JSON rows of token ids, or of {ids, mask, negative}")
      ->type_name("F");
  prompts->require_option(1);
  app.add_flag("--chat", command.chat, "Apply the model's chat template to each prompt");
  app.add_option(
         "--negative-prompt", command.negative_prompts,
         "Text that --guidance-scale leads away from: one for all prompts, or one for each; default: the prompt's last "
         "token alone")
      ->type_name("TEXT");
  begin_section(app,
                "Generation, as in Hugging Face's GenerationConfig (defaults: the model's generation_config.json)");
  app.add_option("--max-new-tokens", command.max_new_tokens,
                 "Most new tokens; default: until an end token or the slot's capacity")
      ->check(CLI::Range(1, 1 << 24))
      ->type_name("N");
  add_generation_options(app, command);
  app.add_option("--draft-model", command.draft_model,
                 "A smaller model with the same tokenizer that drafts --num-assistant-tokens tokens a step")
      ->type_name("DIR");
  begin_section(app, "Output");
  app.add_option("--json", command.json, "Write tokens, texts, timings and memory to this file (JSON)")
      ->type_name("OUT");
  app.add_option("--output-logits", command.output_logits, "Write the raw logits of every new token (safetensors)")
      ->type_name("OUT");
  app.add_option("--output-scores", command.output_scores,
                 "Write the processed scores that every new token was chosen from (safetensors)")
      ->type_name("OUT");
  add_run_options(app, command.run);
}

void add_tokenize(CLI::App& parent, TokenizeCommand& command) {
  CLI::App& app = *parent.add_subcommand("tokenize", "Text to token ids and back");
  app.add_option("--model", command.model, "Directory with tokenizer.json")->required()->type_name("DIR");
  auto* texts = app.add_option_group("texts", "Exactly one of these");
  texts->add_option("--text", command.texts, "Text; may be given again")->type_name("TEXT");
  texts->add_option("--texts-file", command.texts_file, "JSON array of strings")->type_name("F");
  texts->require_option(1);
  app.add_flag("!--no-special-tokens", command.special_tokens,
               "Do not add the tokens that the model puts around a text");
  app.add_option("--json", command.json, "Write {\"ids\", \"decoded\"} to this file")->type_name("OUT");
}

void add_explain(CLI::App& parent, ExplainCommand& command) {
  CLI::App& app = *parent.add_subcommand("explain", "Print partition, graphs, memory and cost without reading weights");
  add_model_options(app, command.model);
  begin_section(app, "What is printed");
  app.add_option("--rank", command.rank, "Whose graphs")
      ->check(CLI::Range(0, 4095))
      ->capture_default_str()
      ->type_name("R");
  app.add_option("--phase", command.phase, "Graphs of which steps")
      ->check(CLI::IsMember({"prefill", "decode", "both"}))
      ->capture_default_str();
  app.add_option("--passes", command.passes, "Graphs before the passes, after them, or after each")
      ->check(CLI::IsMember({"before", "after", "each"}))
      ->capture_default_str();
  app.add_option("--show", command.show, "Graphs, the summary above them, or both")
      ->check(CLI::IsMember({"all", "graph", "summary"}))
      ->capture_default_str();
}

/// CLI11 takes a word in brackets for a list and cuts it at its commas ("[INST] one, two [/INST]"); a guard in front
/// keeps it whole until `take_guards_off`.
constexpr char kGuard = '\x01';

/// The words of argv without the program's name, last first, as CLI11 wants them.
std::vector<std::string> guarded_words(int argc, const char* const* argv) {
  std::vector<std::string> words(std::make_reverse_iterator(argv + argc), std::make_reverse_iterator(argv + 1));
  for (std::string& word : words) {
    if (word.starts_with('[') && word.ends_with(']')) word.insert(word.begin(), kGuard);
  }
  return words;
}

void take_guards_off(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    option->transform([](std::string word) { return word.starts_with(kGuard) ? word.substr(1) : word; }, "");
  }
  for (CLI::App* inner : app.get_subcommands([](const CLI::App*) { return true; })) take_guards_off(*inner);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

Error unknown_command(const CLI::App& app, std::string_view word) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] cannot read the command line: found the command \"{}\", expected one of {}; see "
                      "lockstep --help",
                      word, fmt::join(command_names(app), ", "))};
}

void add_bench(CLI::App& parent, BenchCommand& command, int64_t& probe_mib) {
  CLI::App& app = *parent.add_subcommand("bench", "Measure prefill and decode beside the machine's own limits");
  add_model_options(app, command.model);
  app.get_option("--model")->required(false);
  app.get_option("--batch-size")->description("Sequences at once; default: 1");
  app.get_option("--max-seq-len")->description("Tokens that a slot can hold; default: prompt and new tokens");
  begin_section(app, "Measurement");
  auto* random =
      app.add_flag("--random-weights", command.random_weights, "Weights that exist nowhere, for the shape of --config");
  auto* config = app.add_option("--config", command.config, "A config.json")->type_name("F");
  random->needs(config)->excludes(app.get_option("--model"));
  config->needs(random);
  const auto tokens = [&](const char* name, int64_t& value, int64_t least, const char* help) {
    app.add_option(name, value, help)->check(CLI::Range(least, kMostTokens))->capture_default_str()->type_name("N");
  };
  command.shape = {.batch = 1, .prompt_tokens = 512, .new_tokens = 64};
  tokens("--prompt-tokens", command.shape.prompt_tokens, 1, "Tokens of each prompt: random ids, always the same");
  tokens("--new-tokens", command.shape.new_tokens, 2, "Tokens that follow; no end token is obeyed");
  app.add_option("--repeats", command.repeats, "Repetitions that are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--warmup", command.warmup, "Repetitions before them")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--probe-mib", probe_mib,
                 "MiB that a thread reads to measure the bandwidth; default: eight times the last-level cache, at "
                 "least 512, at most what a quarter of the free memory allows")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->type_name("N");
  app.add_option("--json", command.json, "Write the result to this file")->type_name("OUT");
  add_run_options(app, command.run);
  app.footer("\n" + std::string(formulas()));
  app.final_callback([&app] {
    if (app.count("--model") + app.count("--random-weights") == 0) {
      throw CLI::RequiredError("--model or --random-weights");
    }
  });
}

/// Every command with the options that were given.
struct Commands {
  GenerateCommand generate;
  TokenizeCommand tokenize;
  ExplainCommand explain;
  BenchCommand bench;
  int64_t probe_mib = 0;  // of bench
};

void add_all(CLI::App& app, Commands& commands) {
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  add_generate(app, commands.generate);
  add_tokenize(app, commands.tokenize);
  add_explain(app, commands.explain);
  add_bench(app, commands.bench, commands.probe_mib);
  take_guards_off(app);
}

/// The one that argv names, which was parsed.
Command chosen_command(const CLI::App& app, Commands commands) {
  if (app.got_subcommand("generate")) return std::move(commands.generate);
  if (app.got_subcommand("tokenize")) return std::move(commands.tokenize);
  if (app.got_subcommand("explain")) return std::move(commands.explain);
  commands.bench.shape.batch = commands.bench.model.batch_size.value_or(1);
  if (commands.probe_mib > 0) commands.bench.probe_bytes = Bytes(commands.probe_mib << 20);
  return std::move(commands.bench);
}

}  // namespace

Result<Command> parse_command_line(int argc, const char* const* argv) {
  CLI::App app("Runs one language model across many devices: [mpirun -n P] lockstep COMMAND --model DIR …", "lockstep");
  Commands commands;
  add_all(app, commands);
  const std::vector<std::string> names = command_names(app);
  if (argc > 1 && argv[1][0] != '-' && std::ranges::find(names, argv[1]) == names.end()) {
    return unknown_command(app, argv[1]);
  }
  try {
    app.parse(guarded_words(argc, argv));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    return Command{PrintedText{chosen.empty() ? app.help() : chosen.front()->help("lockstep")}};
  } catch (const CLI::CallForAllHelp&) {
    return Command{PrintedText{app.help("", CLI::AppFormatMode::All)}};
  } catch (const CLI::CallForVersion&) {
    return Command{PrintedText{std::string(kVersion) + "\n"}};
  } catch (const CLI::ParseError& error) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] cannot read the command line: {}; see lockstep {}--help", error.what(),
                             app.get_subcommands().empty() ? "" : app.get_subcommands().front()->get_name() + " ")};
  }
  return chosen_command(app, std::move(commands));
}

}  // namespace lockstep::launcher
