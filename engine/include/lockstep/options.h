// How an engine is divided, placed and sized. Rank 0 sends its options to all ranks.
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

/// Whether the host may choose tokens: with processors, beams, guidance, criteria and the caller's choosers.
/// `kNone` keeps the logits on the devices and rejects such requests.
enum class Choosers { kAllowed, kNone };

/// Whether the engine can score texts (Engine::score), and whether scores contain the raw logits; costs one more graph.
enum class Scoring { kOff, kOn, kLogits };

/// Whether prompts may contain embeddings instead of tokens (Prompt::embeddings). Prefill graphs then have an input for
/// them.
enum class PromptEmbeddings { kOff, kOn };

/// Whether a request reuses the KV cache of an earlier request with the same beginning. Its answer is the same to the
/// bit as without reuse; backends whose sums depend on chunks do not reuse.
enum class PrefixReuse { kOn, kOff };

/// Whether open requests fail with the error when a rank is lost or fails, or wait for `Engine::resume`.
enum class OnLoss { kFail, kSuspend };

/// Whether a compilation after the start is an error or is only counted.
enum class Strictness { kStrict, kLenient };

/// Whether compute threads are bound to cores that only their rank uses.
enum class ThreadBinding { kOwnCores, kNone };

/// How tokens are drafted for a step to verify. Drafts change the speed and never the answer.
struct Drafting {
  int64_t tokens = 0;                          // per sequence and step; 0: no drafts
  std::optional<std::filesystem::path> model;  // directory of a smaller model with the same tokenizer
  int64_t lookup_ngram = 0;                    // or: the longest n-gram to look up in the sequence's past

  friend bool operator==(const Drafting&, const Drafting&) = default;
};
LOCKSTEP_FIELDS(Drafting, tokens, model, lookup_ngram);

/// Records of an engine's work, over all ranks. Files are written when the engine closes.
struct ObserveOptions {
  bool profile = false;                          // EngineFacts::report: where every rank's time went
  std::optional<std::filesystem::path> trace;    // a timeline (Chrome trace events; Perfetto opens it)
  int64_t trace_events = 100'000;                // limit on the recorded steps, and collectives, of a rank
  std::optional<std::filesystem::path> metrics;  // Prometheus text, also written during the run
  double metrics_interval_s = 10.0;

  bool is_on() const { return profile || trace || metrics; }
  friend bool operator==(const ObserveOptions&, const ObserveOptions&) = default;
};
LOCKSTEP_FIELDS(ObserveOptions, profile, trace, trace_events, metrics, metrics_interval_s);

struct EngineOptions {
  std::optional<int64_t> slots;  // sequences that run at once; default: 8
  std::optional<int64_t>
      capacity;                 // tokens of a slot; default: the model's limit (memory is committed as tokens arrive)
  int64_t prefill_chunk = 256;  // rows of a prefill step
  // Milliseconds that a prefill or score step may take between two tokens of running sequences; 0: the time of four
  // decode steps. The number of its rows follows from measured times, and answers do not depend on it. None: whole
  // chunks and long schedules, for the most tokens per second.
  std::optional<double> chunk_budget_ms;
  std::vector<int64_t> batch_sizes;          // ascending up to `slots`, one decode graph each; empty: one of all slots
  std::vector<int64_t> context_buckets;      // ascending prefill rows, one graph each; {0}: token by token
  std::optional<std::string> token_buckets;  // graphs of several lengths: "auto" or "128,512"; for backends whose
                                             // attention cannot stop at the length in use
  std::string backend = "cpu";               // backend_names() lists them
  std::map<std::string, std::string> backend_options;  // options of the backend's driver: {"instruction-set", "avx2"}
  std::string communicator = "auto";                   // auto, shm, mpi, two-level or loopback
  std::optional<int> threads;                          // of a rank; default: the cores that only it may use
  ThreadBinding binding = ThreadBinding::kOwnCores;
  partition::Options partition;  // numerics, experts, key/value heads
  Drafting drafting;
  Choosers choosers = Choosers::kAllowed;
  Scoring scoring = Scoring::kOff;
  int64_t scored_top = 20;  // with scoring: the largest `top` of Engine::score
  PrefixReuse prefix_reuse = PrefixReuse::kOn;
  OnLoss on_loss = OnLoss::kFail;
  Strictness strictness = Strictness::kStrict;
  std::optional<Bytes> memory_budget;  // of a rank; an engine that needs more fails before weights are read
  double check_weights_s = 600.0;      // seconds in which a rank checks its weights in host memory once; 0: never
  ObserveOptions observe;
  PromptEmbeddings prompt_embeddings = PromptEmbeddings::kOff;

  friend bool operator==(const EngineOptions&, const EngineOptions&) = default;
};
LOCKSTEP_FIELDS(EngineOptions, slots, capacity, prefill_chunk, chunk_budget_ms, batch_sizes, context_buckets,
                token_buckets, backend, backend_options, communicator, threads, binding, partition, drafting, choosers,
                scoring, scored_top, prefix_reuse, on_loss, strictness, memory_budget, check_weights_s, observe,
                prompt_embeddings);

}  // namespace lockstep
