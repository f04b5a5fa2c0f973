#include "launcher/measure/bench/suite/goals.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/measure/bench/suite/bench_words.h"

namespace lockstep::launcher::suite {
namespace {

constexpr double kGiga = 1e-9;

Shown decode_speed(const std::string& side) {
  return {.name = side + " decode", .operand = {side, "/decode/tokens_per_s"}, .unit = "tokens/s"};
}
Shown prefill_speed(const std::string& side) {
  return {.name = side + " prefill", .operand = {side, "/prefill/tokens_per_s"}, .unit = "tokens/s"};
}
Shown read_probe(const std::string& side) {
  return {.name = side + " read probe", .operand = {side, "/probe/read_bytes_per_s"}, .scale = kGiga, .unit = "GB/s"};
}
Shown dot_probe(const std::string& side) {
  return {.name = side + " dot probe", .operand = {side, "/probe/flops_per_s"}, .scale = kGiga, .unit = "GFLOP/s"};
}

Formula alone(const std::string& side, const std::string& pointer) { return {.over = {{side, pointer}}, .under = {}}; }
Formula quotient(const std::string& over, const std::string& under, const std::string& pointer) {
  return {.over = {{over, pointer}}, .under = {{under, pointer}}};
}

/// Collects measurements and goals; one function a topic adds them.
class Builder {
 public:
  explicit Builder(const Setting& setting) : setting_(setting) {}

  Suite build() {
    add_decode();
    add_ranks();
    add_long_prompt();
    add_collectives();
    add_path_and_memory();
    add_start();
    add_batches();
    add_small();
    add_weights();
    add_numerics();
    add_rivals("l1b", "Llama-3.2-1B", setting_.large);
    add_rivals("small", "SmolLM2-135M", setting_.small);
    return std::move(suite_);
  }

 private:
  std::string group_name() const { return fmt::format("{} ranks of {} thread(s)", setting_.ranks, setting_.threads); }

  Side side(const std::string& name, const Run& run, Files files = Files::kAsTheyAre) const {
    return {.name = name, .words = bench_words(setting_, run), .files = files};
  }
  /// One rank with every core.
  Run whole(int prompt, int created) const {
    return {.threads = setting_.cores,
            .config = setting_.large,
            .prompt = prompt,
            .created = created,
            .repeats = setting_.repeats};
  }
  /// All ranks of the rows about several.
  Run group(int prompt, int created) const {
    Run run = whole(prompt, created);
    run.ranks = setting_.ranks;
    run.threads = setting_.threads;
    return run;
  }
  /// One program whose repetitions are the pairs: each lies between two probes.
  Run alone_with_pairs(Run run) const {
    run.repeats = setting_.pairs;
    return run;
  }

  /// The same with four times as many: a shared machine changes its speed within one repetition.
  Run alone_with_many_pairs(Run run) const {
    run.repeats = setting_.pairs * 4;
    return run;
  }

  Measurement& measure(const std::string& id, std::vector<Side> sides) {
    const int rounds = sides.size() > 1 ? setting_.pairs : 1;
    suite_.measurements.push_back(
        {.id = id, .sides = std::move(sides), .rounds = rounds, .deadline_s = setting_.deadline_s, .files = {}});
    return suite_.measurements.back();
  }
  /// Rows about several ranks cannot be had where there is one core.
  Measurement& measure_group(const std::string& id, std::vector<Side> sides) {
    Measurement& measurement = measure(id, std::move(sides));
    if (setting_.ranks < 2) {
      measurement.absence = Absence{.reason = "needs two ranks: found one core, expected at least two"};
    }
    return measurement;
  }
  void add(Goal goal) { suite_.goals.push_back(std::move(goal)); }

  void add_decode();
  void add_ranks();
  void add_long_prompt();
  void add_collectives();
  void add_path_and_memory();
  void add_start();
  void add_batches();
  void add_small();
  void add_weights();
  void add_numerics();
  void add_rivals(const std::string& id, const std::string& name, const std::filesystem::path& config);

  const Setting& setting_;
  Suite suite_;
};

void Builder::add_decode() {
  measure("decode", {side("whole", alone_with_many_pairs(whole(128, 64)))});
  add({.id = "decode",
       .name = "decode, bf16, 128 + 64 tokens: bytes/s over the read probe",
       .measurement = "decode",
       .floor = 0.90,
       .aim = 0.96,
       .figure = alone("whole", "/repetitions/*/of_bandwidth"),
       .beside = {decode_speed("whole"), read_probe("whole")}});
}

void Builder::add_ranks() {
  Run single = whole(512, 64);
  single.threads = setting_.threads;
  measure_group("ranks", {side("ranks", group(512, 64)), side("whole", whole(512, 64)), side("single", single)});
  const std::string pair = fmt::format("{} over 1 rank of {}", group_name(), setting_.cores);
  const std::string decode = "/decode/tokens_per_s", prefill = "/prefill/tokens_per_s";
  const std::string probe = "/probe/read_bytes_per_s";
  add({.id = "ranks-decode",
       .name = pair + ": decode",
       .measurement = "ranks",
       .floor = 0.97,
       .aim = 1.00,
       .figure = quotient("ranks", "whole", decode),
       .beside = {decode_speed("ranks"), decode_speed("whole"), read_probe("ranks"), read_probe("whole")}});
  add({.id = "ranks-prefill",
       .name = pair + ": prefill 512",
       .measurement = "ranks",
       .floor = 0.97,
       .aim = 1.00,
       .figure = quotient("ranks", "whole", prefill),
       .beside = {prefill_speed("ranks"), prefill_speed("whole")}});
  add({.id = "ranks-speed-up",
       .name = fmt::format("{} over 1 rank of {}: speed-up over the read probe's own", group_name(), setting_.threads),
       .measurement = "ranks",
       .floor = 0.95,
       .aim = 0.985,
       .figure = {.over = {{"ranks", decode}, {"single", probe}}, .under = {{"single", decode}, {"ranks", probe}}},
       .beside = {decode_speed("ranks"), decode_speed("single"), read_probe("ranks"), read_probe("single")}});
  measure("prefill", {side("whole", alone_with_pairs(whole(512, 2)))});
  add({.id = "prefill-512",
       .name = "prefill 512, bf16: FLOP/s over the dot probe",
       .measurement = "prefill",
       .floor = 0.85,
       .aim = 0.92,
       .figure = alone("whole", "/repetitions/*/of_peak"),
       .beside = {prefill_speed("whole"), dot_probe("whole")}});
}

void Builder::add_long_prompt() {
  Run chunks = whole(8192, 2);
  chunks.repeats = 1;
  chunks.warmup = 0;  // seconds of work: what is done only once weighs nothing
  Run once = chunks;
  chunks.more = {"--prefill-chunk", "512"};
  once.more = {"--prefill-chunk", "8192"};
  measure("prefill-long", {side("chunks", chunks), side("once", once)});
  add({.id = "prefill-8192",
       .name = "prefill 8192 in chunks of 512: FLOP/s over the dot probe",
       .measurement = "prefill-long",
       .floor = 0.72,
       .aim = 0.84,
       .figure = alone("chunks", "/repetitions/*/of_peak"),
       .beside = {prefill_speed("chunks"), dot_probe("chunks")}});
  add({.id = "prefill-chunks",
       .name = "prefill 8192 in chunks of 512 over one shot",
       .measurement = "prefill-long",
       .floor = 0.97,
       .aim = 0.97,
       .figure = quotient("chunks", "once", "/prefill/tokens_per_s"),
       .beside = {prefill_speed("chunks"), prefill_speed("once")}});
}

void Builder::add_collectives() {
  std::vector<std::string> words = launcher_words(setting_, setting_.ranks);
  const bool has_mpi = !words.empty();
  words.push_back(setting_.collectives.string());
  Measurement& sizes = measure_group("all-reduce", {{.name = "ranks", .words = std::move(words)}});
  sizes.rounds = setting_.pairs;
  if (!sizes.absence && setting_.collectives.empty()) {
    sizes.absence = Absence{.kind = Absence::Kind::kMissing,
                            .reason = "needs the program collective_benchmark beside lockstep: build that target"};
  } else if (!sizes.absence && !has_mpi) {
    sizes.absence = Absence{.reason = "needs mpirun: found none"};
  }
  for (const int kib : {4, 8, 16, 64, 256}) {
    const std::string size = fmt::format("/sizes/[bytes={}]", kib * 1024);
    add({.id = fmt::format("all-reduce-{}k", kib),
         .name = fmt::format("all-reduce of {} KiB between reads of memory: time over MPI_Allreduce's", kib),
         .measurement = "all-reduce",
         .better = Better::kLower,
         .floor = 0.5,
         .aim = 0.3,
         .figure = alone("ranks", size + "/ratio_p50/median"),
         .beside = {{.name = "ours", .operand = {"ranks", size + "/ours_p50_us"}, .unit = "us"},
                    {.name = "MPI_Allreduce", .operand = {"ranks", size + "/mpi_p50_us"}, .unit = "us"}}});
  }
}

void Builder::add_path_and_memory() {
  constexpr int kNew = 25;
  Run served = alone_with_many_pairs(whole(128, kNew));
  served.more = {"--replay"};
  measure("served", {side("whole", served)});
  add({.id = "served",
       .name = "served path over a bare replay of the same executables: decode",
       .measurement = "served",
       .floor = 0.985,
       .aim = 0.995,
       .figure = {.over = {{"whole", "/repetitions/*/decode_tokens_per_s"},
                           {"whole", "/repetitions/*/replay/decode_s"}},
                  .under = {},
                  .factor = 1.0 / (kNew - 1)},  // the first token is prefill's
       .beside = {decode_speed("whole")}});
  Run grown = whole(128, kNew);
  grown.batch = 8;
  grown.more = {"--max-seq-len", "131072", "--kv", "fresh"};
  Run kept = grown;
  kept.more.back() = "kept";
  measure("kv", {side("grown", grown), side("kept", kept)});
  add({.id = "kv-grown",
       .name = "KV committed as it grows over committed before, 8 slots of 128k reserved: decode",
       .measurement = "kv",
       .floor = 0.98,
       .aim = 0.995,
       .figure = quotient("grown", "kept", "/decode/tokens_per_s"),
       .beside = {decode_speed("grown"), decode_speed("kept")}});
}

void Builder::add_start() {
  Run run = group(128, 2);
  run.config.clear();
  run.repeats = 1;
  run.warmup = 0;
  const bool has_files = setting_.checkpoint.has_value();
  std::vector<Side> sides;
  if (has_files) sides = {side("warm", run, Files::kWarm), side("cold", run, Files::kCold)};
  Measurement& start = measure_group("start", std::move(sides));
  start.rounds = setting_.pairs;
  if (has_files) start.files = *setting_.checkpoint;
  if (!has_files && !start.absence) {
    start.absence = Absence{.kind = Absence::Kind::kMissing,
                            .reason =
                                "needs a checkpoint on disk: --checkpoint DIR (tools/compare/make_model.py "
                                "writes one of any shape)"};
  }
  for (const auto& [name, limit] : {std::pair{"warm", "the page cache"}, {"cold", "the disk"}}) {
    add({.id = fmt::format("start-{}", name),
         .name = fmt::format("exec to first token, {} cache: over reading the files once from {}", name, limit),
         .measurement = "start",
         .better = Better::kLower,
         .floor = 1.5,
         .aim = 1.15,
         .figure = {.over = {{name, "/first_token/cold_s"}}, .under = {{name, "/suite/files/read_s"}}},
         .beside = {{.name = "first token", .operand = {name, "/first_token/cold_s"}, .unit = "s"},
                    {.name = "reading once", .operand = {name, "/suite/files/read_s"}, .unit = "s"}}});
  }
  const double even = 1.0 / setting_.ranks;
  add({.id = "start-bytes",
       .name = fmt::format("bytes that a rank reads of the files of weights, {}: part of all", group_name()),
       .measurement = "start",
       .better = Better::kLower,
       .floor = 1.1 * even,
       .aim = 1.1 * even,
       .figure = {.over = {{"warm", "/ranks/*/memory/bytes_read_loading"}},
                  .under = {{"warm", "/ranks/*/memory/bytes_of_files"}}},
       .beside = {}});
  add({.id = "start-seconds",
       .name = fmt::format("exec to first token, {}, warm cache, seconds (the aim is for Llama-3.2-1B)", group_name()),
       .measurement = "start",
       .better = Better::kLower,
       .floor = 2.0,
       .aim = 2.0,
       .figure = alone("warm", "/first_token/cold_s"),
       .beside = {}});
}

void Builder::add_batches() {
  // Of 32 sequences prompts take most of the time, and arithmetic binds, which is steady.
  for (auto [batch, run] :
       {std::pair{8, alone_with_many_pairs(whole(128, 33))}, {32, alone_with_pairs(whole(128, 64))}}) {
    const std::string id = fmt::format("batch-{}", batch);
    run.batch = batch;
    measure(id, {side("whole", run)});
    add({.id = id,
         .name = fmt::format("decode of {} sequences over what bandwidth and FLOPs allow", batch),
         .measurement = id,
         .floor = 0.80,
         .aim = 0.90,
         .figure = alone("whole", "/repetitions/*/decode_of_limit"),
         .beside = {decode_speed("whole"), read_probe("whole")}});
  }
}

void Builder::add_small() {
  Run run = alone_with_many_pairs(group(128, 64));
  run.config = setting_.small;
  measure_group("small", {side("ranks", run)});
  add({.id = "small-decode",
       .name = fmt::format("small model (SmolLM2-135M), {}: decode over the read probe", group_name()),
       .measurement = "small",
       .floor = 0.78,
       .aim = 0.88,
       .figure = alone("ranks", "/repetitions/*/of_bandwidth"),
       .beside = {decode_speed("ranks"), read_probe("ranks")}});
}

void Builder::add_weights() {
  Run bytes = whole(512, 64);
  bytes.more = {"--weights", "int8"};
  measure("int8", {side("int8", bytes), side("bf16", whole(512, 64))});
  add({.id = "int8-decode",
       .name = "int8 weights: decode, bytes/s over the read probe",
       .measurement = "int8",
       .floor = 0.88,
       .aim = 0.95,
       .figure = alone("int8", "/repetitions/*/of_bandwidth"),
       .beside = {decode_speed("int8"), read_probe("int8")}});
  add({.id = "int8-prefill",
       .name = "int8 weights: prefill 512 over own bf16 prefill",
       .measurement = "int8",
       .floor = 1.3,
       .aim = 1.8,
       .figure = quotient("int8", "bf16", "/prefill/tokens_per_s"),
       .beside = {prefill_speed("int8"), prefill_speed("bf16")}});
}

void Builder::add_numerics() {
  Run run = alone_with_many_pairs(whole(256, 25));
  run.more = {"--invariance-cost"};
  measure("numerics", {side("whole", run)});
  for (const char* phase : {"decode", "prefill"}) {
    add({.id = fmt::format("invariance-{}", phase),
         .name = fmt::format("the same answer however it is cut: its cost in {}, part of the time without", phase),
         .measurement = "numerics",
         .better = Better::kLower,
         .floor = 0.02,
         .aim = 0.02,
         .figure = alone("whole", fmt::format("/repetitions/*/invariance_cost/{}", phase)),
         .beside = {}});
  }
}

void Builder::add_rivals(const std::string& id, const std::string& name, const std::filesystem::path& config) {
  std::vector<std::string> words = setting_.compare;
  const bool found = !words.empty();
  words.insert(words.end(), {"--program", setting_.program, "--config", config.string(), "--name", id, "--threads",
                             std::to_string(setting_.cores), "--pairs", std::to_string(setting_.pairs)});
  Measurement& rivals = measure("rivals-" + id, {{.name = "compare", .words = std::move(words)}});
  rivals.deadline_s = setting_.deadline_s * 4 * setting_.pairs;  // it runs all rivals, all rows and all pairs
  if (!found) {
    rivals.absence = Absence{.kind = Absence::Kind::kMissing,
                             .reason = "found no scripts that run rivals: --rival-scripts DIR (tools/compare)"};
  }
  for (const auto& [row, what] : {std::pair{"decode", "decode"},
                                  {"prefill-512", "prefill 512"},
                                  {"prefill-2048", "prefill 2048"},
                                  {"decode-8", "decode of 8 sequences"}}) {
    const std::string pointer = fmt::format("/rows/{}", row);
    add({.id = fmt::format("rivals-{}-{}", id, row),
         .name = fmt::format("{}, {}: over the fastest rival", name, what),
         .measurement = "rivals-" + id,
         .floor = 1.00,
         .aim = 1.05,
         .figure = alone("compare", pointer + "/ratios/*"),
         .beside = {{.name = "ours", .operand = {"compare", pointer + "/ours"}, .unit = "tokens/s"},
                    {.name = "fastest rival", .operand = {"compare", pointer + "/fastest"}, .unit = "tokens/s"}}});
  }
}

}  // namespace

Suite cpu_suite(const Setting& setting) { return Builder(setting).build(); }

}  // namespace lockstep::launcher::suite
