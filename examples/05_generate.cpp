// Generates text ids through the C++ API: a tiny model with random weights, cut over two ranks that are threads of this
// program, must give the same tokens as one rank.
//
//   ModelSpec ─► Partition ─► graphs ─► Shard (one a rank) ─► Session ─► tokens in a Sink
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <thread>

#include "actors/session.h"
#include "runtime/backends/cpu/cpu.h"
#include "runtime/graph/passes.h"
#include "shards/shard.h"
#include "transport/loopback/loopback.h"

namespace {

using namespace lockstep;

/// Five heads do not divide by two: ranks get 3 and 2.
checkpoint::ModelSpec tiny_llama() {
  constexpr const char* kConfig = R"({
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 5, "head_dim": 16,
    "intermediate_size": 128, "vocab_size": 300, "max_position_embeddings": 128})";
  return checkpoint::parse_spec(kConfig, "the example").value();
}

/// Prints tokens as they are made, and keeps them.
class PrintingSink final : public actors::Sink {
 public:
  actors::Verdict on_token(RequestId, const actors::MadeToken& token) override {
    tokens.push_back(token.id);
    fmt::print("{} ", token.id);
    return actors::Verdict::kContinue;
  }
  void on_finish(RequestId, generation::FinishReason reason, const std::optional<Error>&) override {
    fmt::print("({})\n", generation::to_string(reason));
  }

  std::vector<int32_t> tokens;
};

/// One rank: its part of the model, and its steps until the session ends.
Result<void> run_rank(actors::Session& session, const partition::Partition& partition, int rank,
                      device::Communicator* communicator) {
  const shards::ShardOptions options{.slots = 1, .chunk = 8, .capacity = 64};
  LOCKSTEP_TRY(auto graphs, shards::build_graphs(tiny_llama(), partition, rank, options, graph::default_passes()));
  LOCKSTEP_TRY(const auto backend, cpu::make_backend({.threads = 1}));
  LOCKSTEP_TRY(const auto shard,
               shards::Shard::create(std::move(graphs), options, *backend, communicator, shards::RandomWeights()));
  return session.run_executor(RankId(rank), *shard);
}

/// The tokens that `ranks` ranks continue a prompt with.
Result<std::vector<int32_t>> generate(int ranks) {
  const SteadyClock clock;
  AbortFlag abort;
  actors::SessionOptions options{.size = ranks};
  for (int rank = 0; rank < ranks; ++rank) options.ranks.push_back({RankId(rank), &abort});
  LOCKSTEP_TRY(const auto session, actors::Session::host(options));
  LOCKSTEP_TRY(const partition::Partition partition, partition::make_partition(tiny_llama(), ranks));

  PrintingSink sink;
  session->submit({.id = RequestId(0), .ids = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, .parameters = {.max_new_tokens = 12}},
                  sink);
  session->finish();

  const auto group = transport::loopback::make_group(ranks);
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(30)};
  std::optional<Error> failure;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = transport::loopback::make_communicator(group, rank, wait);
      const Result<void> result = run_rank(*session, partition, rank, communicator.get());
      if (!result.has_value() && abort.raise(result.error())) failure = result.error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) return *failure;
  return sink.tokens;
}

}  // namespace

int main() {
  std::vector<std::vector<int32_t>> answers;
  for (const int ranks : {1, 2}) {
    fmt::print("{} rank(s): ", ranks);
    const auto tokens = generate(ranks);
    if (!tokens.has_value()) {
      fmt::print(stderr, "{}\n", tokens.error().message);
      return 1;
    }
    answers.push_back(tokens.value());
  }
  return answers[0] == answers[1] && answers[0].size() == 12 ? 0 : 1;
}
