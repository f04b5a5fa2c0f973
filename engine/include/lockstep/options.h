// How an engine is cut, placed and sized. Rank 0's options count for all ranks: it tells them to the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/field_list.h"
#include "runtime/core/ids.h"
#include "shards/partition/options.h"

namespace lockstep {

/// Whether tokens may be chosen on the host: by processors, beams, guidance, criteria and choosers of one's own.
/// `kNone` keeps the logits on the devices and refuses such requests.
enum class Choosers { kAllowed, kNone };

/// Whether texts can be scored (Engine::score): one more graph.
enum class Scoring { kOff, kOn };

/// Whether a request that begins like an earlier one goes on from what a slot still holds of that one. The bits are
/// those of a request that is prefilled from its first token; backends whose sums depend on chunks never do it.
enum class PrefixReuse { kOn, kOff };

/// What becomes of open requests when a rank is lost or fails: they end with the error, or they wait for
/// `Engine::resume`.
enum class OnLoss { kFail, kSuspend };

/// Whether a compilation after the start is an error or is only counted.
enum class Strictness { kStrict, kLenient };

/// Whether compute threads are bound to cores that are their rank's alone.
enum class ThreadBinding { kOwnCores, kNone };

/// Who drafts tokens that one step then verifies. Drafts change the speed and never the answer.
struct Drafting {
  int64_t tokens = 0;                          // of a sequence in a step; 0: none are drafted
  std::optional<std::filesystem::path> model;  // directory of a smaller model with the same tokenizer
  int64_t lookup_ngram = 0;                    // or: the longest run of last tokens that is looked up in the row's past

  friend bool operator==(const Drafting&, const Drafting&) = default;
};
LOCKSTEP_FIELDS(Drafting, tokens, model, lookup_ngram);

/// What is recorded of an engine's work, over all ranks. Files are written when the engine closes.
struct ObserveOptions {
  bool profile = false;                          // EngineFacts::profile: where every rank's time went
  std::optional<std::filesystem::path> trace;    // a timeline (Chrome trace events; Perfetto opens it)
  int64_t trace_events = 100'000;                // steps, and collectives, of a rank that are kept
  std::optional<std::filesystem::path> metrics;  // Prometheus text, also while the engine works
  double metrics_interval_s = 10.0;

  bool is_on() const { return profile || trace || metrics; }
  friend bool operator==(const ObserveOptions&, const ObserveOptions&) = default;
};
LOCKSTEP_FIELDS(ObserveOptions, profile, trace, trace_events, metrics, metrics_interval_s);

struct EngineOptions {
  std::optional<int64_t> slots;  // sequences at once; default: 8
  std::optional<int64_t>
      capacity;                 // tokens of a slot; default: the model's limit (memory is committed as tokens arrive)
  int64_t prefill_chunk = 256;  // rows of a prefill step
  std::vector<int64_t> batch_sizes;      // rising, the last is `slots`: a decode graph of each; empty: one of all slots
  std::vector<int64_t> context_buckets;  // rising rows of prefill steps, a graph of each; {0}: token by token
  std::optional<std::string> token_buckets;  // graphs of several lengths: "auto" or "128,512"; for backends whose
                                             // attention cannot stop at the length in use
  std::string backend = "cpu";               // backend_names() lists them
  std::map<std::string, std::string> backend_options;  // rows of its driver: {"instruction-set", "avx2"}
  std::string communicator = "auto";                   // auto, shm, mpi, two-level or loopback
  std::optional<int> threads;                          // of a rank; default: the cores that are its own
  ThreadBinding binding = ThreadBinding::kOwnCores;
  partition::Options partition;  // numerics, experts, key/value heads
  Drafting drafting;
  Choosers choosers = Choosers::kAllowed;
  Scoring scoring = Scoring::kOff;
  int64_t scored_top = 20;  // with Scoring::kOn: the most likeliest tokens that a score can name
  PrefixReuse prefix_reuse = PrefixReuse::kOn;
  OnLoss on_loss = OnLoss::kFail;
  Strictness strictness = Strictness::kStrict;
  std::optional<Bytes> memory_budget;  // of a rank; more is refused before weights are read
  ObserveOptions observe;

  friend bool operator==(const EngineOptions&, const EngineOptions&) = default;
};
LOCKSTEP_FIELDS(EngineOptions, slots, capacity, prefill_chunk, batch_sizes, context_buckets, token_buckets, backend,
                backend_options, communicator, threads, binding, partition, drafting, choosers, scoring, scored_top,
                prefix_reuse, on_loss, strictness, memory_budget, observe);

}  // namespace lockstep
