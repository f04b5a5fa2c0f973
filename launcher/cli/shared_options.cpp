#include "launcher/cli/shared_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "engine/group/communicators.h"
#include "launcher/cli/backend_options.h"
#include "launcher/cli/choice.h"
#include "lockstep/engine.h"
#include "lockstep/time_limits.h"
#include "runtime/core/int8_groups.h"

namespace lockstep::launcher {

namespace {

/// "1,4,8" as ascending distinct numbers from `least` to `most`. CLI11 catches the exception and names the option.
std::vector<int64_t> numbers_of(const std::string& option, const std::string& text, int64_t least, int64_t most) {
  std::vector<int64_t> numbers;
  const char* const end = text.data() + text.size();
  for (const char* next = text.data();; ++next) {
    int64_t number = 0;
    const auto [stop, failure] = std::from_chars(next, end, number);
    if (failure != std::errc{} || number < least || number > most || (stop != end && *stop != ',')) {
      throw CLI::ValidationError(option,
                                 fmt::format("found \"{}\", expected a number from {} to {}, or several such as "
                                             "1,4,8",
                                             text, least, most));
    }
    numbers.push_back(number);
    next = stop;
    if (stop == end) break;
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

/// "; this build lacks cuda", or "" where it lacks none.
std::string lacks_backends() {
  const std::vector<std::string_view> missing = built_backends().missing;
  return missing.empty() ? "" : fmt::format("; this build lacks {}", fmt::join(missing, ", "));
}

void set_buckets(EngineOptions& engine, const std::string& buckets) {
  if (engine.token_buckets) {
    throw CLI::ValidationError("--buckets", "found it beside several lengths of --max-seq-len, expected one of them");
  }
  engine.token_buckets = buckets;
}

/// The format in "q4", "q8:32", "int8:64".
MatrixFormat served_weights(const std::string& text) {
  if (const std::optional<MatrixFormat> format = served_format(text)) return *format;
  throw CLI::ValidationError("--weights",
                             fmt::format("found {}, expected q4, q8 or int8, each with :GROUP or without, a "
                                         "GROUP of columns being a multiple of {} up to {}",
                                         text, kLeastInt8Group, kMostInt8Group));
}

}  // namespace

MatrixFormat copied_weights(const std::string& text) {
  const MatrixFormat format = served_weights(text);
  if (format.activations == ActivationFormat::kElements) return format;
  throw CLI::ValidationError("--weights",
                             fmt::format("found {}, expected q4 or q8: files do not say how activations are "
                                         "multiplied",
                                         text));
}

namespace {

/// Adds batch sizes, lengths and chunks: numbers, or lists with one compiled graph each.
void add_shape_options(CLI::App& app, EngineOptions& engine) {
  app.add_option_function<std::string>(
         "--batch-size",
         [&engine](const std::string& text) {
           engine.batch_sizes = numbers_of("--batch-size", text, 1, 65536);
           engine.slots = engine.batch_sizes.back();
           if (engine.batch_sizes.size() == 1) engine.batch_sizes.clear();
         },
         "Sequences at once; several such as 1,4,8: a decode step runs the smallest that holds those in use; default: "
         "the number of prompts, at most 8")
      ->type_name("B[,B]");
  auto* chunk = app.add_option("--prefill-chunk", engine.prefill_chunk, "Token rows of a prefill step")
                    ->check(CLI::Range(int64_t{1}, kMostTokens))
                    ->capture_default_str()
                    ->type_name("C");
  app.add_option_function<std::string>(
         "--max-seq-len,--n-positions",
         [&engine](const std::string& text) {
           const std::vector<int64_t> lengths = numbers_of("--max-seq-len", text, 1, kMostTokens);
           engine.capacity = lengths.back();
           if (lengths.size() > 1) set_buckets(engine, fmt::format("{}", fmt::join(lengths, ",")));
         },
         "Tokens that a slot can hold; several: the --buckets up to the last; default: what the prompts need")
      ->type_name("L[,L]");
  app.add_option_function<std::string>(
         "--buckets", [&engine](const std::string& text) { set_buckets(engine, text); },
         "Compile graphs for several lengths: auto, or lengths such as 128,512,2048 (prefill chunks are half as "
         "long, instead of --prefill-chunk); for backends that cannot stop at the length in use")
      ->type_name("auto|L[,L]");
  app.add_option_function<std::string>(
         "--context-buckets,--context-length-estimate",
         [&engine](const std::string& text) {
           engine.context_buckets = numbers_of("--context-buckets", text, 0, kMostTokens);
           if (engine.context_buckets.front() == 0 && engine.context_buckets.size() > 1) {
             throw CLI::ValidationError("--context-buckets",
                                        "found 0 beside others, expected 0 alone (token by token)");
           }
         },
         "Token rows of prefill steps, one or several, of which the smallest that holds a chunk is used; longer "
         "prompts "
         "take several steps; 0: prompts go in token by token")
      ->excludes(chunk)
      ->type_name("C[,C]");
}

void add_observe_options(CLI::App& app, ObserveOptions& options) {
  begin_section(app, "Observation (docs/observability.md)");
  app.add_flag("--profile", options.profile,
               "Say where each rank's time went, computing, communicating or waiting, and which rank is late");
  app.add_option("--trace", options.trace, "Write a timeline of all ranks (Chrome trace events; Perfetto opens it)")
      ->type_name("OUT");
  app.add_option("--trace-events", options.trace_events, "Steps, and collectives, of a rank that are kept")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000'000}))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--metrics", options.metrics, "Write metrics, while it runs and at the end (Prometheus text format)")
      ->type_name("OUT");
  app.add_option("--metrics-interval-s", options.metrics_interval_s, "Seconds from one writing to the next")
      ->check(CLI::Range(kMetricsIntervalSeconds.least, kMetricsIntervalSeconds.most))
      ->capture_default_str()
      ->type_name("S");
}

}  // namespace

void begin_section(CLI::App& app, const std::string& title) { app.option_defaults()->group(title); }

void add_model_options(CLI::App& app, ModelArguments& model, EngineOptions& engine) {
  begin_section(app, "Model");
  app.add_option("--model", model.directory,
                 "Hugging Face directory (config.json, *.safetensors, tokenizer.json) or .gguf file")
      ->required()
      ->type_name("DIR");
  app.add_option("--tp,--tp-degree", model.ranks, "Tensor-parallel degree; default: the number of ranks")
      ->check(CLI::Range(1, 4096))
      ->type_name("P");
  add_shape_options(app, engine);
  app.add_option("--dtype,--amp", model.options.dtype,
                 "float32 (f32), bfloat16 (bf16) or float16 (f16); default: the checkpoint's")
      ->transform(one_of<DType>({{"float32", DType::kFloat32},
                                 {"f32", DType::kFloat32},
                                 {"bfloat16", DType::kBFloat16},
                                 {"bf16", DType::kBFloat16},
                                 {"float16", DType::kFloat16},
                                 {"f16", DType::kFloat16}}))
      ->type_name("TYPE");
  app.add_option_function<std::string>(
         "--weights", [&model](const std::string& text) { model.options.weights = served_weights(text); },
         "Quantise matrices while they are read: q4, q8, or int8 (q8 with --activations int8); GROUP columns to a "
         "scale "
         "(docs/quantization.md); default: as --dtype says")
      ->type_name("q4|q8|int8[:GROUP]");
  app.add_option(
         "--activations", model.options.activations,
         "elements or int8: what is multiplied by weights in codes; default: as --weights or the checkpoint says")
      ->transform(one_of<ActivationFormat>({{"elements", ActivationFormat::kElements},
                                            {"bf16", ActivationFormat::kElements},
                                            {"int8", ActivationFormat::kInt8ByGroup}}))
      ->type_name("TYPE");
  app.add_option_function<std::string>(
         "--kv-dtype", [&model](const std::string& text) { model.options.kv_dtype = *cache_type_from_text(text); },
         "Keep keys and values in 8 bits, with a scale for each head and token (docs/quantization.md); default: "
         "as --dtype says")
      ->check(CLI::IsMember({"int8", "fp8"}))
      ->type_name("TYPE");
  app.add_flag_callback(
      "--expert-parallel", [&engine] { engine.partition.experts = partition::ExpertSplit::kWhole; },
      "Give whole experts to ranks, instead of columns of every expert");
  app.add_option("--numerics", engine.partition.numerics,
                 "invariant (default: the same bits at every degree) or fast (each rank sums its share in one go)")
      ->transform(one_of<partition::Numerics>(
          {{"invariant", partition::Numerics::kInvariant}, {"fast", partition::Numerics::kFast}}))
      ->type_name("HOW");
  std::vector<std::pair<std::string, partition::GqaMode>> gqa_modes{{"auto", partition::GqaMode::kAuto}};
  for (const partition::GqaMode mode : partition::kGqaModes) gqa_modes.emplace_back(partition::name_of(mode), mode);
  app.add_option("--gqa", engine.partition.gqa,
                 "Where key/value heads are computed and kept (docs/gqa.md): heads, replicated, all-gather or batch; "
                 "auto (default): heads, or replicated where ranks share a head")
      ->transform(one_of(std::move(gqa_modes)))
      ->type_name("MODE");
  app.add_option("--window", model.options.window,
                 "Tokens that a token sees, itself included, in every layer; default: what the model says")
      ->check(CLI::Range(int64_t{1}, kMostTokens))
      ->type_name("W");
  app.add_option("--pinned-sinks", model.options.pinned_sinks,
                 "First tokens that stay visible beyond windows (StreamingLLM); default: none")
      ->check(CLI::Range(int64_t{1}, kMostTokens))
      ->type_name("N");
}

void add_chunk_budget(CLI::App& app, EngineOptions& engine) {
  engine.chunk_budget_ms = 0.0;
  app.add_option("--chunk-budget-ms", engine.chunk_budget_ms,
                 "Milliseconds that the tokens of running requests may wait for a part of a long prompt; 0 (default): "
                 "the time of four tokens")
      ->check(CLI::Range(kChunkBudgetMilliseconds.least, kChunkBudgetMilliseconds.most))
      ->type_name("MS");
}

void add_memory_budget(CLI::App& app, EngineOptions& engine) {
  app.add_option_function<int64_t>(
         "--memory-budget", [&engine](const int64_t& bytes) { engine.memory_budget = Bytes(bytes); },
         "Bytes that a rank may use for weights, states and workspace")
      ->check(CLI::PositiveNumber)
      ->type_name("BYTES");
}

void add_run_options(CLI::App& app, RunOptions& options, EngineOptions& engine) {
  begin_section(app, "Ranks");
  app.add_option(
         "--launch", options.launch,
         "mpi (one process per rank, started by mpirun or srun; default), processes (--tp of them on this host, "
         "started by lockstep) or threads (all ranks in this process)")
      ->transform(
          one_of<Launch>({{"mpi", Launch::kMpi}, {"processes", Launch::kProcesses}, {"threads", Launch::kThreads}}))
      ->type_name("HOW");
  app.add_option("--threads", engine.threads, "Compute threads of a rank; default: the cores that it was given")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--bind-threads", engine.binding,
                 "auto (default): bind each compute thread to a core where ranks do not share cores; none: never "
                 "(docs/launching.md)")
      ->transform(one_of<ThreadBinding>({{"auto", ThreadBinding::kOwnCores}, {"none", ThreadBinding::kNone}}))
      ->type_name("HOW");
  app.add_option("--backend", engine.backend, "What computes the steps" + lacks_backends())
      ->check(CLI::IsMember(backend_names()))
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--communicator", engine.communicator, "auto, shm, mpi, two-level (several hosts) or loopback")
      ->check(CLI::IsMember(group::communicator_names()))
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--interface", options.interface,
                 "Network between hosts: an interface's name, address or subnet; default: the one that all hosts share")
      ->type_name("NAME|ADDRESS|SUBNET");
  app.add_option("--deadline-s", options.deadline_s, "Seconds that one wait between ranks may take")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str()
      ->type_name("S");
  app.add_option("--start-deadline-s", options.start_deadline_s, "Seconds until all ranks have started and met")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str()
      ->type_name("S");
  app.add_option("--silence-s", options.silence_s,
                 "Seconds without a sign of life after which a rank counts as lost; 0: never (for debuggers)")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str()
      ->type_name("S");
  app.add_option("--progress", options.progress,
                 "auto (default): a line of progress on stderr if that is a terminal; always; never")
      ->transform(one_of<ShowProgress>(
          {{"auto", ShowProgress::kOnTerminal}, {"always", ShowProgress::kAlways}, {"never", ShowProgress::kNever}}))
      ->type_name("WHEN");
  app.add_option("--first-rank", options.first_rank)->group("");  // these two are given by the program itself
  app.add_flag("--make-exit-record", options.makes_exit_record)->group("");
  app.add_option("--exit-record", options.exit_record, "Folder for rank-R.json: how each process ended")
      ->type_name("DIR");
  app.add_option("--flight-recorder", options.flight_recorder,
                 "Folder for rank-R.json: the last operations of each rank, written when the job fails and on SIGUSR1")
      ->type_name("DIR");
  add_memory_budget(app, engine);
  app.add_option("--check-weights-s", engine.check_weights_s,
                 "Seconds in which each rank checks its weights in memory once, while it runs; 0: never "
                 "(docs/failures.md)")
      ->check(CLI::Range(kCheckWeightsSeconds.least, kCheckWeightsSeconds.most))
      ->capture_default_str()
      ->type_name("S");
  app.add_flag(
      "--strict,!--no-strict",
      [&engine](int64_t count) { engine.strictness = count > 0 ? Strictness::kStrict : Strictness::kLenient; },
      "A compilation after warm-up is an error (default)");
  app.add_option("--peer-detection", options.peer_detection, "off: do not notice lost ranks (for tests)")
      ->transform(one_of<Detection>({{"on", Detection::kOn}, {"off", Detection::kOff}}))
      ->type_name("HOW");
  app.add_option(
         "--fault", options.faults,
         "rank=R,phase=NAME,kind=kill|stop|fail|memory|differ|flip[,tensor=NAME][,step=N]: a rank fails on purpose "
         "(for tests)")
      ->type_name("FAULT");
}

void add_engine_options(CLI::App& app, RunOptions& run, EngineOptions& engine) {
  add_observe_options(app, engine.observe);
  add_run_options(app, run, engine);
  add_backend_options(app, device::OptionUse::kRunning, engine.backend_options);
}

void describe_open_sizes(CLI::App& app) {
  app.get_option("--batch-size")
      ->description(
          "Slots: sequences at once; several such as 1,4,8: a decode step runs the smallest that holds those in use; "
          "default: 8");
  app.get_option("--max-seq-len")
      ->description(
          "Tokens that a slot can hold, prompt and answer; several: the --buckets up to the last; default: the model's "
          "limit (memory is taken as tokens arrive)");
}

}  // namespace lockstep::launcher
