// The command line as values. `parse_command_line` knows every option, its default and its bounds; nothing behind it
// looks at argv.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/commands/prompts.h"
#include "launcher/measure/bench/bench_formulas.h"
#include "launcher/measure/bench/suite_options.h"
#include "launcher/ranks/devices.h"
#include "runtime/core/result.h"
#include "runtime/device/option_row.h"
#include "shards/partition/partition.h"

namespace lockstep::launcher {

/// How a model is cut and how large its static shapes are; `generate`, `explain`, `plan` and `bench` share it.
struct ModelOptions {
  std::filesystem::path model;
  std::optional<int> tp;              // default: the world size
  std::optional<int64_t> batch_size;  // slots; default: the number of prompts, at most 8
  std::vector<int64_t>
      batch_sizes;  // rising, the last is `batch_size`: a decode graph of each; empty: one of all slots
  int64_t prefill_chunk = 256;
  std::optional<int64_t> max_seq_len;  // capacity of a slot
  std::optional<std::string> dtype;    // default: the checkpoint's
  std::optional<std::string> weights;  // "int8" or "int8:GROUP"; default: in that type
  partition::ExpertSplit experts = partition::ExpertSplit::kColumns;
  partition::Numerics numerics = partition::Numerics::kInvariant;
  partition::GqaMode gqa = partition::GqaMode::kAuto;
  std::optional<int64_t> window;         // of every layer, instead of the model's own
  int64_t pinned_sinks = 0;              // first positions that windows keep
  std::optional<std::string> buckets;    // "auto" or a list of lengths
  std::vector<int64_t> context_buckets;  // rising rows of prefill steps; {0}: token by token; empty: as `buckets` says
};

enum class Launch { kMpi, kThreads };
enum class Strictness { kStrict, kLenient };
enum class Detection { kOn, kOff };
enum class Binding { kOwnCores, kNone };  // of compute threads: to cores that are their rank's alone (ranks/binding.h)
enum class Meeting { kAgreed, kBare };

/// How the processes work together.
struct RunOptions {
  Launch launch = Launch::kMpi;
  std::optional<int> threads;  // of each rank; default: its cores
  Binding binding = Binding::kOwnCores;
  std::string backend = "cpu";
  device::OptionValues backend_options;  // rows of its driver
  std::string communicator = "auto";
  std::optional<std::string> interface;  // of the control plane between hosts: name, address or subnet
  double deadline_s = 60.0;
  std::optional<std::filesystem::path> exit_record;
  std::optional<int64_t> memory_budget;  // bytes of a rank
  Strictness strictness = Strictness::kStrict;
  Detection peer_detection = Detection::kOn;
  Meeting meeting = Meeting::kAgreed;  // bare: MPI's group alone, for who examines the rest
  double start_deadline_s = 30.0;      // until all ranks have met
  double silence_s = 8.0;              // of a frozen rank; 0: never noticed
  std::optional<std::filesystem::path> flight_recorder;
  std::vector<std::string> faults;  // ranks/fault.h reads them
};

/// What is recorded of a run besides its result.
struct ObserveOptions {
  bool profile = false;
  std::optional<std::filesystem::path> trace;
  int64_t trace_events = 100'000;  // steps, and collectives, of a rank that are kept
  std::optional<std::filesystem::path> metrics;
  double metrics_interval_s = 10.0;

  bool is_on() const { return profile || trace || metrics; }
};

struct GenerateCommand {
  ModelOptions model;
  RunOptions run;
  ObserveOptions observe;
  PromptSources prompts;
  bool chat = false;
  std::vector<std::string> negative_prompts;  // of guidance: one for all prompts, or one for each
  std::optional<std::filesystem::path> draft_model;
  std::optional<int32_t> max_new_tokens;
  /// Hugging Face's GenerationConfig fields that were given as options, by their names, as JSON text ("0.7", "[1,2]").
  std::map<std::string, std::string> generation;
  bool ignore_eos = false;
  std::vector<std::string> stop_strings;
  std::optional<std::filesystem::path> json;
  std::optional<std::filesystem::path> output_logits;
  std::optional<std::filesystem::path> output_scores;
  std::optional<std::filesystem::path> journal;  // of --prompts-file
  std::optional<std::filesystem::path> output;   // of --prompts-file; default: stdout
};

struct TokenizeCommand {
  std::filesystem::path model;
  std::vector<std::string> texts;
  std::optional<std::filesystem::path> texts_file;
  bool special_tokens = true;
  std::optional<std::filesystem::path> json;
};

struct ExplainCommand {
  ModelOptions model;
  int rank = 0;
  std::string phase = "both";    // prefill, decode or both
  std::string passes = "after";  // before, after or each
  std::string show = "all";      // all, graph or summary
  std::string backend;           // whose compiler input is printed instead of the graphs; empty: none
};

/// Every graph that a backend compiles, compiled ahead of time; no devices, weights or other processes are needed.
struct CompileCommand {
  ModelOptions model;
  std::filesystem::path config;                  // instead of a model directory
  std::string backend;                           // that compiles ahead of time
  device::OptionValues backend_options;          // rows of its driver
  int64_t drafts = 0;                            // as ShardOptions has them
  bool logits = false;                           // graphs that put out logits
  int jobs = 1;                                  // compilations at once
  std::optional<std::filesystem::path> modules;  // folder where each graph's HLO module is written
  std::optional<std::filesystem::path> json;
};

/// The same, and then copied to a folder for --artifacts.
struct ExportCommand {
  CompileCommand compile;
  std::filesystem::path to;
};

/// The memory behind keys and values when a repetition of `bench` begins.
enum class KvMemory {
  kKept,   // as the repetition before left it: committed after the warm-up
  kFresh,  // none: it grows as tokens arrive
};

struct BenchCommand {
  ModelOptions model;
  RunOptions run;
  bool random_weights = false;
  std::filesystem::path config;  // of random weights: there is no checkpoint
  BenchShape shape;
  int repeats = 5;
  int warmup = 1;
  KvMemory kv = KvMemory::kKept;
  bool invariance_cost = false;                // each repetition also with fast numerics
  bool replay = false;                         // time a bare replay of the same steps beside each repetition
  std::optional<std::filesystem::path> trace;  // of the last repetition
  std::optional<Bytes> probe_bytes;            // of each thread's buffer; default: what no cache holds
  std::optional<std::filesystem::path> json;
  SuiteOptions suite;
};

enum class Warnings { kAllow, kFail };

struct DoctorCommand {
  RunOptions run;         // how ranks are started; the rest is not asked for
  std::optional<int> tp;  // ranks
  double stage_deadline_s = 10.0;
  bool quick = false;  // without the machine's limits
  Warnings warnings = Warnings::kAllow;
  std::optional<Bytes> probe_bytes;  // of each thread's buffer; default: what no cache holds
  std::optional<std::filesystem::path> model;
  std::optional<std::filesystem::path> json;
};

/// What `plan` knows of the machine. What is not given comes from `measure` or `probe`, or is assumed.
struct MachineOptions {
  std::optional<double> bandwidth, flops;            // of a rank: GB/s, GFLOP/s
  std::optional<double> host_bandwidth, host_flops;  // that the ranks of a host share
  std::optional<int> ranks_per_host;                 // default: all on one
  std::optional<int> rank_cores;                     // default: the probed cores divided by the ranks
  std::optional<double> link_latency_us, link_bandwidth;
  double of_bandwidth = 1.0, of_peak = 1.0;  // what kernels reach of the limits
  std::optional<std::filesystem::path> probe;
  bool measure = false;
  std::optional<Bytes> probe_bytes;  // of each thread's buffer, when measuring
};

struct PlanCommand {
  ModelOptions model;
  std::filesystem::path config;  // instead of a model directory
  int max_tp = 8;
  std::optional<int64_t> prompt_tokens;  // default: 512, or what a slot leaves
  int64_t new_tokens = 64;
  std::optional<int64_t> memory_budget;  // bytes of a rank
  device::OptionValues backend_options;  // that name a device, whose rules count
  MachineOptions machine;
  std::optional<int> detail;  // the degree whose ranks are printed
  std::optional<std::filesystem::path> json;
};

enum class SweepMode { kRun, kReport, kSlurmArray };
enum class FailedPoints { kKeep, kRetry };

/// A scaling study: `bench` over a grid of degrees, batch sizes and prompt lengths.
struct SweepCommand {
  BenchCommand bench;                                              // what all points share, as bench reads it
  std::vector<std::string> shared_options;                         // of bench, as they were given: "--repeats", "2"
  std::string tp = "1", batch_sizes = "1", prompt_tokens = "512";  // lists with commas
  std::filesystem::path out;
  std::string launch_template;  // empty: mpirun for several ranks
  std::optional<double> point_deadline_s;
  FailedPoints failed_points = FailedPoints::kKeep;
  SweepMode mode = SweepMode::kRun;
  std::optional<int> only_point;   // of the grid; a task of a Slurm array
  std::vector<std::string> words;  // everything behind "sweep", as it was given
};

/// A batch job that is started again when it is lost.
struct SuperviseCommand {
  int restarts = 10;
  int stalled_restarts = 2;
  double backoff_s = 1.0;
  bool shrink = false;
  std::vector<std::string> words;  // of the job, behind "--"
};

/// Everything was said already (help, version): end with code 0 after printing the text.
struct PrintedText {
  std::string text;
};

using Command = std::variant<GenerateCommand, TokenizeCommand, ExplainCommand, PlanCommand, BenchCommand, SweepCommand,
                             SuperviseCommand, DoctorCommand, CompileCommand, ExportCommand, PrintedText>;

/// Fails with `kInvalidArgument` whose message names the option and what it expects.
Result<Command> parse_command_line(int argc, const char* const* argv);

}  // namespace lockstep::launcher
