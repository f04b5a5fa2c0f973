// A decoding loop of one's own, the counterpart of transformers' `custom_generate`: cache, batching, tensor parallelism
// and transport are prepared, and a `TokenChooser` says after every step what each row is fed next, and from which
// row's cache it goes on.
//
//   logits [2 rows, V] ─► race: both rows take their best token; the surer row wins and both go on from it
//
// Below it the same session runs a prepared chooser with a processor, a criterion and a set of allowed tokens of the
// user's own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>

#include "actors/session.h"
#include "runtime/backends/cpu/cpu.h"
#include "runtime/generation/choosers.h"
#include "runtime/graph/passes.h"
#include "shards/shard.h"
#include "transport/loopback/loopback.h"

namespace {

using namespace lockstep;

constexpr int64_t kVocabulary = 300;
constexpr size_t kNewTokens = 10;

/// Two rows race: each step row 0 takes the best token and row 1 the second best; what the next step is surer of wins.
class Race final : public generation::TokenChooser {
 public:
  explicit Race(std::vector<int32_t> prompt) : prompt_(std::move(prompt)) {}

  int64_t rows() const override { return 2; }
  std::vector<std::vector<int32_t>> prompts() const override { return {prompt_, {}}; }  // row 1 begins as a copy

  generation::Choice choose(std::span<const float> logits) override {
    size_t winner = 0;
    if (!fed_.empty()) {
      winner = confidence(row(logits, 1)) > confidence(row(logits, 0)) ? 1 : 0;
      ids_.push_back(fed_[winner]);
    }
    fed_ = best_two(row(logits, winner));
    const auto source = static_cast<int32_t>(winner);
    return {.tokens = fed_, .sources = {source, source}, .finished = ids_.size() == kNewTokens};
  }

  std::span<const int32_t> certain() const override { return std::span(ids_).last(std::min<size_t>(1, ids_.size())); }
  std::vector<generation::Sequence> sequences() const override { return {{.ids = ids_}}; }

 private:
  static std::span<const float> row(std::span<const float> logits, size_t r) {
    return logits.subspan(r * kVocabulary, kVocabulary);
  }
  /// The probability of the best token.
  static double confidence(std::span<const float> logits) {
    const float best = *std::ranges::max_element(logits);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit - best));
    return 1.0 / sum;
  }
  static std::vector<int32_t> best_two(std::span<const float> logits) {
    std::vector<int32_t> ids(logits.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
    std::ranges::partial_sort(ids, ids.begin() + 2, [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    return {ids[0], ids[1]};
  }

  std::vector<int32_t> prompt_, ids_;
  std::vector<int32_t> fed_;  // to rows 0 and 1 in the step before
};

/// Makes ids of the upper half of the vocabulary dearer.
class PreferLowIds final : public generation::LogitsProcessor {
 public:
  void process(std::span<const int32_t>, std::span<float> scores) const override {
    for (size_t id = kVocabulary / 2; id < scores.size(); ++id) scores[id] -= 1.0f;
  }
};

/// Ends a row at the first id that it has made twice.
class StopAtRepetition final : public generation::StoppingCriterion {
 public:
  bool is_met(std::span<const int32_t> ids, std::span<const float>) const override {
    return std::ranges::count(ids, ids.back()) > 1;
  }
  generation::FinishReason reason() const override { return generation::FinishReason::kStop; }
};

/// A prepared chooser with a processor, a criterion and allowed tokens (every third id) of the user's own.
std::shared_ptr<generation::TokenChooser> constrained(const std::vector<int32_t>& prompt) {
  generation::ChooserRequest request{
      .prompt = prompt, .vocabulary = kVocabulary, .max_length = static_cast<int64_t>(prompt.size() + kNewTokens)};
  request.processors.processors = {std::make_shared<PreferLowIds>()};
  request.processors.allowed_tokens = [](int64_t, std::span<const int32_t>) {
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < kVocabulary; id += 3) allowed.push_back(id);
    return allowed;
  };
  request.criteria = {std::make_shared<StopAtRepetition>()};
  return generation::make_chooser(std::move(request)).value();
}

checkpoint::ModelSpec tiny_llama() {
  constexpr const char* kConfig = R"({
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 5, "head_dim": 16,
    "intermediate_size": 128, "vocab_size": 300, "max_position_embeddings": 128})";
  return checkpoint::parse_spec(kConfig, "the example").value();
}

/// Tokens go to the choosers; only failures matter here.
class FailureSink final : public actors::Sink {
 public:
  actors::Verdict on_token(RequestId, const actors::MadeToken&) override { return actors::Verdict::kContinue; }
  void on_finish(RequestId, generation::FinishReason, const std::optional<Error>& error) override {
    LOCKSTEP_CHECK(!error.has_value(), error ? error->message : "");
  }
};

/// One rank: its part of the model, and its steps until the session ends. Logits are asked for at start.
Result<void> run_rank(actors::Session& session, int ranks, int rank, device::Communicator* communicator) {
  const shards::ShardOptions options{
      .slots = 2, .chunk = 8, .capacity = 64, .logits = families::StepShape::Logits::kOutput};
  LOCKSTEP_TRY(const partition::Partition partition, partition::make_partition(tiny_llama(), ranks));
  LOCKSTEP_TRY(auto graphs, shards::build_graphs(tiny_llama(), partition, rank, options, graph::default_passes()));
  LOCKSTEP_TRY(const auto backend, cpu::make_backend({.threads = 1}));
  LOCKSTEP_TRY(const auto shard,
               shards::Shard::create(std::move(graphs), options, *backend, communicator, shards::RandomWeights()));
  return session.run_executor(RankId(rank), *shard);
}

/// Runs the choosers as requests of one session of `ranks` ranks; element i is what chooser i made.
std::vector<std::vector<int32_t>> run(int ranks,
                                      const std::vector<std::shared_ptr<generation::TokenChooser>>& choosers) {
  const SteadyClock clock;
  AbortFlag abort;
  actors::SessionOptions options{.size = ranks};
  for (int rank = 0; rank < ranks; ++rank) options.ranks.push_back({RankId(rank), &abort});
  const auto session = actors::Session::host(options).value();
  FailureSink sink;
  for (size_t i = 0; i < choosers.size(); ++i) {
    session->submit({.id = RequestId(static_cast<int64_t>(i)),
                     .parameters = {.max_new_tokens = kNewTokens + 1},
                     .chooser = choosers[i]},
                    sink);
  }
  session->finish();
  const auto group = transport::loopback::make_group(ranks);
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(30)};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = ranks == 1 ? nullptr : transport::loopback::make_communicator(group, rank, wait);
      const Result<void> ended = run_rank(*session, ranks, rank, communicator.get());
      LOCKSTEP_CHECK(ended.has_value(), ended.error().message);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::vector<int32_t>> made;
  for (const auto& chooser : choosers) made.push_back(chooser->sequences().front().ids);
  return made;
}

}  // namespace

int main() {
  const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6};
  const auto choosers = [&] {
    return std::vector<std::shared_ptr<generation::TokenChooser>>{std::make_shared<Race>(prompt), constrained(prompt)};
  };
  const auto one = run(1, choosers());
  const auto two = run(2, choosers());
  fmt::print("race         {}\nconstrained  {}\n", fmt::join(one[0], " "), fmt::join(one[1], " "));
  const bool allowed = std::ranges::all_of(one[1], [](int32_t id) { return id % 3 == 0; });
  if (one != two || one[0].size() != kNewTokens || one[1].empty() || !allowed) {
    fmt::print(stderr, "two ranks made {} / {}\n", fmt::join(two[0], " "), fmt::join(two[1], " "));
    return 1;
  }
  return 0;
}
