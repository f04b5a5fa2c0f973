// From requests to tokens by schedules: a session of two ranks that are threads. The coordinator plans; each rank's
// executor runs the same steps. Instead of a model, the engine counts upwards from the last prompt id.
//
//   submit ─► coordinator ─► schedule 0, 1, … ─► executor of rank 0, of rank 1 ─► tokens ─► sink
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <map>
#include <thread>
#include <vector>

#include "actors/session.h"

namespace lockstep {
namespace {

constexpr int64_t kSlots = 2;

/// Answers a prompt that ends in n with n + 1, n + 2, …
class CountingEngine final : public shards::StepEngine {
 public:
  int64_t slots() const override { return kSlots; }
  int64_t chunk() const override { return 4; }
  int64_t capacity() const override { return 64; }
  int64_t tokens_per_step() const override { return 1; }
  bool rows_of_one_slot() const override { return false; }
  int64_t long_rope_after() const override { return 0; }

  Result<void> open_slot(SlotId slot, const shards::SlotParameters& parameters) override {
    slots_[slot.value] = {.pad = parameters.pad_id, .left = parameters.max_new_tokens};
    return ok();
  }
  Result<void> close_slot(SlotId slot) override {
    slots_[slot.value] = {};
    return ok();
  }

  Result<shards::StepOutput> prefill(const shards::PrefillRows& rows, shards::StepTag) override {
    tokens_.assign(kSlots, -1);
    for (int64_t slot = 0; slot < kSlots; ++slot) {
      if (rows.logit_rows[slot] < 0) continue;  // this slot's prompt does not end in this chunk
      slots_[slot].last = rows.ids[rows.logit_rows[slot]];
      slots_[slot].running = true;
      tokens_[slot] = next(slots_[slot]);
    }
    return shards::StepOutput{tokens_, {}};
  }
  Result<shards::StepOutput> decode(shards::StepTag) override {
    tokens_.assign(kSlots, -1);
    for (int64_t slot = 0; slot < kSlots; ++slot) {
      if (slots_[slot].running) tokens_[slot] = next(slots_[slot]);
    }
    return shards::StepOutput{tokens_, {}};
  }

  Result<void> decide(shards::Decision&) override { return ok(); }  // only the engine chooses

  bool all_finished() const override {
    for (const Slot& slot : slots_) {
      if (slot.running && slot.left > 0) return false;
    }
    return true;
  }
  Result<void> confirm(shards::StepTag) override { return ok(); }
  void request_stop(SlotId) override {}

 private:
  struct Slot {
    int32_t last = 0;
    int32_t pad = 0;
    int32_t left = 0;  // remaining tokens
    bool running = false;
  };

  static int32_t next(Slot& slot) {
    if (slot.left == 0) return slot.pad;
    --slot.left;
    return ++slot.last;
  }

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
  std::vector<int32_t> tokens_;
};

/// Keeps every answer. The calls come one at a time, on the coordinator's thread.
class Answers final : public actors::Sink {
 public:
  actors::Verdict on_token(RequestId request, const actors::MadeToken& token) override {
    tokens[request.value].push_back(token.id);
    return actors::Verdict::kContinue;
  }
  void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) override {
    LOCKSTEP_CHECK(!error.has_value(), error ? error->message : "");
    LOCKSTEP_CHECK(reason == generation::FinishReason::kLength, request.value);
    ++finished;
  }

  std::map<int64_t, std::vector<int32_t>> tokens;
  int finished = 0;
};

void run() {
  AbortFlag abort;
  std::atomic<int> schedules = 0;
  actors::SessionOptions options;
  options.size = 2;
  options.ranks = {{RankId(0), &abort}, {RankId(1), &abort}};
  options.trace.schedule = [&](RankId, const actors::Schedule&) { ++schedules; };
  const auto session = actors::Session::host(std::move(options)).value();

  // Three prompts, two slots: the third takes the first free slot.
  Answers answers;
  const std::vector<std::vector<int32_t>> prompts = {{5, 6, 7}, {100}, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  for (size_t i = 0; i < prompts.size(); ++i) {
    actors::Request request;
    request.id = RequestId(static_cast<int32_t>(i));
    request.ids = prompts[i];
    request.parameters.max_new_tokens = 5;
    session->submit(std::move(request), answers);
  }
  session->finish();

  std::vector<std::string> failures(2);
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        CountingEngine engine;
        const auto result = session->run_executor(RankId(rank), engine);
        if (!result.has_value()) failures[rank] = result.error().message;
      });
    }
  }
  for (const std::string& failure : failures) LOCKSTEP_CHECK(failure.empty(), failure);

  LOCKSTEP_CHECK(answers.finished == 3, answers.finished);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t>& tokens = answers.tokens[static_cast<int64_t>(i)];
    fmt::print("request {}: {} → {}\n", i, prompts[i].back(), fmt::join(tokens, " "));
    for (int32_t k = 0; k < 5; ++k) LOCKSTEP_CHECK(tokens.at(k) == prompts[i].back() + 1 + k, i, k);
    LOCKSTEP_CHECK(tokens.size() == 5, tokens.size());
  }
  fmt::print("{} schedule messages for 2 ranks\n", schedules.load());
}

}  // namespace
}  // namespace lockstep

int main() try {
  lockstep::run();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
