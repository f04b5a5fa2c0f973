#include "launcher/cli/shared_options.h"

#include <CLI/CLI.hpp>
#include <map>

namespace lockstep::launcher {

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
  app.add_option("--weights", options.weights,
                 "int8: multiply with 8-bit integers, GROUP columns to a scale (docs/quantization.md); default: as "
                 "--dtype says")
      ->type_name("int8[:GROUP]");
  app.add_flag_callback(
      "--expert-parallel", [&options] { options.experts = partition::ExpertSplit::kWhole; },
      "Give whole experts to ranks, instead of columns of every expert");
  app.add_option("--numerics", options.numerics,
                 "invariant (default: the same bits at every degree) or fast (each rank sums its share in one go)")
      ->transform(CLI::CheckedTransformer(
                      std::map<std::string, partition::Numerics>{{"invariant", partition::Numerics::kInvariant},
                                                                 {"fast", partition::Numerics::kFast}})
                      .description("{invariant,fast}"))
      ->type_name("HOW");
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
          CLI::CheckedTransformer(std::map<std::string, Launch>{{"mpi", Launch::kMpi}, {"threads", Launch::kThreads}})
              .description("{mpi,threads}"))
      ->type_name("HOW");
  app.add_option("--threads", options.threads, "Compute threads of a rank; default: the cores that it was given")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--backend", options.backend, "cpu, reference or neuron (docs/neuron.md)")
      ->check(CLI::IsMember({"cpu", "reference", "neuron"}))
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--communicator", options.communicator, "auto, shm, mpi, two-level (several hosts) or loopback")
      ->check(CLI::IsMember({"auto", "shm", "mpi", "two-level", "loopback"}))
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--interface", options.interface,
                 "Network between hosts: an interface's name, address or subnet; default: the one that all hosts share")
      ->type_name("NAME|ADDRESS|SUBNET");
  app.add_flag_callback(
      "--share-devices", [&options] { options.devices = DeviceSharing::kAllow; },
      "Let several ranks compute on one GPU or accelerator core");
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
  app.add_option("--exit-record", options.exit_record, "Folder for rank-R.json: how each process ended")
      ->type_name("DIR");
  app.add_option("--flight-recorder", options.flight_recorder,
                 "Folder for rank-R.json: the last operations of each rank, written when the job fails and on SIGUSR1")
      ->type_name("DIR");
  app.add_option("--memory-budget", options.memory_budget,
                 "Bytes that a rank may use for weights, states and workspace")
      ->check(CLI::PositiveNumber)
      ->type_name("BYTES");
  app.add_flag(
      "--strict,!--no-strict",
      [&options](int64_t count) { options.strictness = count > 0 ? Strictness::kStrict : Strictness::kLenient; },
      "A compilation after warm-up is an error (default)");
  app.add_option("--peer-detection", options.peer_detection, "off: do not notice lost ranks (for tests)")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Detection>{{"on", Detection::kOn}, {"off", Detection::kOff}})
              .description("{on,off}"))
      ->type_name("HOW");
  app.add_option("--fault", options.faults,
                 "rank=R,phase=NAME,kind=kill|stop|fail|memory|differ[,step=N]: a rank fails on purpose (for tests)")
      ->type_name("FAULT");
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
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str()
      ->type_name("S");
}

}  // namespace lockstep::launcher
