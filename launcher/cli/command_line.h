// The command line as values. `parse_command_line` knows every option, its default and its bounds; nothing behind it
// looks at argv.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/bench/bench_formulas.h"
#include "launcher/generate/prompts.h"
#include "launcher/ranks/devices.h"
#include "runtime/core/result.h"
#include "shards/partition/partition.h"

namespace lockstep::launcher {

/// How a model is cut and how large its static shapes are; `generate`, `explain` and `bench` share it.
struct ModelOptions {
  std::filesystem::path model;
  std::optional<int> tp;              // default: the world size
  std::optional<int64_t> batch_size;  // slots; default: the number of prompts, at most 8
  int64_t prefill_chunk = 256;
  std::optional<int64_t> max_seq_len;  // capacity of a slot
  std::optional<std::string> dtype;    // default: the checkpoint's
  partition::ExpertSplit experts = partition::ExpertSplit::kColumns;
  std::optional<int64_t> window;       // of every layer, instead of the model's own
  int64_t pinned_sinks = 0;            // first positions that windows keep
  std::optional<std::string> buckets;  // "auto" or a list of lengths
};

enum class Launch { kMpi, kThreads };
enum class Strictness { kStrict, kLenient };
enum class Detection { kOn, kOff };

/// How the processes work together.
struct RunOptions {
  Launch launch = Launch::kMpi;
  std::optional<int> threads;  // of each rank; default: its cores
  std::string backend = "cpu";
  std::string communicator = "auto";
  std::optional<std::string> interface;  // of the control plane between hosts: name, address or subnet
  DeviceSharing devices = DeviceSharing::kRefuse;
  double deadline_s = 60.0;
  std::optional<std::filesystem::path> exit_record;
  std::optional<int64_t> memory_budget;  // bytes of a rank
  Strictness strictness = Strictness::kStrict;
  Detection peer_detection = Detection::kOn;
};

struct GenerateCommand {
  ModelOptions model;
  RunOptions run;
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
};

struct BenchCommand {
  ModelOptions model;
  RunOptions run;
  bool random_weights = false;
  std::filesystem::path config;  // of random weights: there is no checkpoint
  BenchShape shape;
  int repeats = 5;
  int warmup = 1;
  std::optional<Bytes> probe_bytes;  // of each thread's buffer; default: what no cache holds
  std::optional<std::filesystem::path> json;
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

/// Everything was said already (help, version): end with code 0 after printing the text.
struct PrintedText {
  std::string text;
};

using Command =
    std::variant<GenerateCommand, TokenizeCommand, ExplainCommand, BenchCommand, DoctorCommand, PrintedText>;

/// Fails with `kInvalidArgument` whose message names the option and what it expects.
Result<Command> parse_command_line(int argc, const char* const* argv);

}  // namespace lockstep::launcher
