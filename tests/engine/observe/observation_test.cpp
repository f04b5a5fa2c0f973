// Parts of an observation: requests, metrics, memory, and the exchange of timelines between ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/group/gathering.h"
#include "engine/observe/periodic_file.h"
#include "engine/observe/rank_memory.h"
#include "engine/observe/request_log.h"
#include "engine/observe/run_metrics.h"
#include "tests/model/tiny_models.h"
#include "tests/runtime/trace/prometheus_text.h"
#include "transport/loopback/loopback.h"

namespace lockstep::observe {
namespace {

using generation::FinishReason;
using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::ElementsAre;

/// Counts calls and stops at a token of 7.
struct CountingSink final : actors::Sink {
  actors::Verdict on_token(RequestId, const actors::MadeToken& token) override {
    ++tokens;
    return token.id == 7 ? actors::Verdict::kStop : actors::Verdict::kContinue;
  }
  void on_finish(RequestId, FinishReason, const std::optional<Error>&) override { ++finished; }
  int tokens = 0, finished = 0;
};

TEST(RequestLog, PassesEverythingOnAndTellsWhatHappened) {
  ManualClock clock;
  CountingSink sink;
  RequestLog log(sink, clock, /*most=*/3);
  for (const int64_t request : {0, 1, 2}) log.submitted(RequestId(request), clock.now());
  const auto token = [&](int64_t request, int32_t id, int ms) {
    clock.advance(milliseconds(ms));
    return log.on_token(RequestId(request), {.id = id, .made = clock.now()});
  };
  EXPECT_EQ(token(1, 5, 30), actors::Verdict::kContinue);
  EXPECT_EQ(token(0, 5, 10), actors::Verdict::kContinue);
  EXPECT_EQ(token(1, 7, 10), actors::Verdict::kStop);
  log.on_finish(RequestId(1), FinishReason::kStop, std::nullopt);
  log.on_finish(RequestId(0), FinishReason::kLength, std::nullopt);
  log.on_finish(RequestId(2), FinishReason::kError, Error{ErrorKind::kInvalidArgument, "too long"});
  EXPECT_EQ(sink.tokens, 3);
  EXPECT_EQ(sink.finished, 3);
  const RequestTotals totals = log.totals();
  EXPECT_EQ(totals.submitted, 3);
  EXPECT_EQ(totals.tokens, 3);
  EXPECT_EQ(totals.finished, (std::map<std::string, int64_t>{{"error", 1}, {"length", 1}, {"stop", 1}}));
  EXPECT_DOUBLE_EQ(totals.first_token_s.samples().at(14).value, 0.070);  // the sum, after 13 bounds and +Inf
  const auto requests = log.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].tokens, 2);
  EXPECT_EQ(requests[1].end - *requests[1].first_token, milliseconds(20));
  EXPECT_FALSE(requests[2].first_token.has_value());
}

TEST(RequestLog, CountsFromTheSubmissionButNotFromBeforeItsSession) {
  ManualClock clock;
  const TimePoint before = clock.now();
  clock.advance(milliseconds(20));
  CountingSink sink;
  RequestLog log(sink, clock, /*most=*/2);
  const TimePoint opened = clock.now();
  clock.advance(milliseconds(5));
  const TimePoint submitted = clock.now();
  clock.advance(milliseconds(1));  // the session receives both later
  log.submitted(RequestId(0), before);
  log.submitted(RequestId(1), submitted);
  for (const int64_t request : {0, 1}) log.on_finish(RequestId(request), FinishReason::kCancelled, std::nullopt);
  EXPECT_EQ(log.requests().at(0).begin, opened);
  EXPECT_EQ(log.requests().at(1).begin, submitted);
}

RunMetrics small_metrics() {
  RankMetrics rank{.rank = 1, .host = "node1", .prefill = {2, 1, {}}, .decode = {9, 18, {}}};
  rank.decode.time = milliseconds(100);
  rank.decode.on_device = {milliseconds(80), milliseconds(5)};
  rank.report = trace::RankReport{.rank = 1, .host = "node1", .phases = {{"load", {1.5, 0.25, 0.25}}, {"run", {}}}};
  rank.report->decode.split = {3.0, 0.5, 0.125};
  rank.report->decode.collectives = {61, 4096, {}};
  rank.memory = {.weights = Bytes(1000), .peak_loading = Bytes(4000), .peak = Bytes(5000)};
  return {.build = {{"version", "1"}},
          .run = {{"model", "m"}},
          .is_complete = true,
          .requests = {.submitted = 2,
                       .tokens = 18,
                       .finished = {{"eos", 2}},
                       .first_token_s = trace::Histogram({1.0}),
                       .token_s = trace::Histogram({1.0})},
          .ranks = {rank}};
}

TEST(RunMetrics, AreOfPrometheusFormat) {
  const auto read = trace::read_prometheus(trace::to_prometheus(families_of(small_metrics())));
  const auto at = [&](const std::string& name) { return read.samples.at(name); };
  EXPECT_EQ(at("lockstep_build_info{version=\"1\"}"), 1);
  EXPECT_EQ(at("lockstep_run_complete"), 1);
  EXPECT_EQ(at("lockstep_generated_tokens_total"), 18);
  EXPECT_EQ(at("lockstep_requests_finished_total{reason=\"eos\"}"), 2);
  EXPECT_EQ(at("lockstep_steps_total{rank=\"1\",host=\"node1\",phase=\"decode\"}"), 9);
  EXPECT_EQ(at("lockstep_phase_seconds_total{rank=\"1\",host=\"node1\",phase=\"load\",kind=\"compute\"}"), 1.5);
  EXPECT_EQ(at("lockstep_phase_seconds_total{rank=\"1\",host=\"node1\",phase=\"decode\",kind=\"waiting\"}"), 0.125);
  const auto part = [&](const std::string& name) {
    return at("lockstep_step_part_seconds_total{rank=\"1\",host=\"node1\",phase=\"decode\",part=\"" + name + "\"}");
  };
  EXPECT_DOUBLE_EQ(part("device"), 0.080);
  EXPECT_DOUBLE_EQ(part("host_before"), 0.015);
  EXPECT_DOUBLE_EQ(part("host_after"), 0.005);
  EXPECT_EQ(at("lockstep_collective_bytes_total{rank=\"1\",host=\"node1\",phase=\"decode\"}"), 4096);
  EXPECT_EQ(at("lockstep_memory_bytes{rank=\"1\",host=\"node1\",kind=\"weights\"}"), 1000);
  EXPECT_EQ(at("lockstep_memory_peak_bytes{rank=\"1\",host=\"node1\"}"), 5000);
  for (const auto& [sample, value] : read.samples) EXPECT_EQ(sample.find("phase=\"run\""), std::string::npos) << sample;
}

TEST(RunMetrics, WhileItRunsTellWhatIsKnown) {
  RunMetrics metrics = small_metrics();
  metrics.is_complete = false;
  metrics.ranks[0].report.reset();
  const auto read = trace::read_prometheus(trace::to_prometheus(families_of(metrics)));
  EXPECT_EQ(read.samples.at("lockstep_run_complete"), 0);
  EXPECT_EQ(read.samples.at("lockstep_steps_total{rank=\"1\",host=\"node1\",phase=\"prefill\"}"), 2);
  EXPECT_FALSE(read.types.contains("lockstep_phase_seconds_total"));
}

TEST(RankMemory, TravelsAsText) {
  const RankMemory memory{Bytes(1), Bytes(2), Bytes(3), Bytes(4), Bytes(5), Bytes(6), Bytes(7), Bytes(8), Bytes(9)};
  EXPECT_EQ(parse_memory(to_text(memory)), memory);
}

TEST(RankMemory, HasThePeakOfTheProcess) {
  const Bytes before = model::peak_resident();
  EXPECT_GT(before.value, 0);
  const std::vector<char> large(before.value + (8 << 20), 'x');
  EXPECT_GT(model::peak_resident(), before);
  EXPECT_EQ(large.back(), 'x');
}

/// Runs `rank_work` on three ranks that are threads.
template <typename Work>
void on_three_ranks(Work&& rank_work) {
  const SteadyClock clock;
  AbortFlag abort;
  const auto group = transport::loopback::make_group(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto bootstrap = transport::loopback::make_bootstrap(
          group, rank, {.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(30)});
      rank_work(rank, *bootstrap, clock);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Gather, BringsRankZeroBytesOfAnyLengthInChunks) {
  std::vector<std::string> found;
  on_three_ranks([&](int rank, transport::Bootstrap& bootstrap, const Clock&) {
    const std::string mine(static_cast<size_t>(rank) * 7, static_cast<char>('a' + rank));
    const auto all = group::gather(bootstrap, mine, /*chunk=*/4).value();
    if (rank == 0) {
      found = all;
    } else {
      EXPECT_TRUE(all.empty());
    }
  });
  EXPECT_THAT(found, ElementsAre("", "bbbbbbb", "cccccccccccccc"));
}

/// A clock that is ahead.
class AheadClock final : public Clock {
 public:
  explicit AheadClock(Duration ahead) : ahead_(ahead) {}
  TimePoint now() const override { return steady_.now() + ahead_; }

 private:
  SteadyClock steady_;
  Duration ahead_;
};

TEST(Gather, PutsTimelinesOnOneClock) {
  std::vector<trace::RankTimeline> found;
  SteadyClock truth;
  const TimePoint moment = truth.now();
  on_three_ranks([&](int rank, transport::Bootstrap& bootstrap, const Clock&) {
    const Duration ahead = std::chrono::hours(rank);
    const AheadClock clock(ahead);
    trace::RankTimeline mine{.rank = rank, .host = "host " + std::to_string(rank)};
    mine.pings_at_begin = group::ping(bootstrap, clock).value();
    mine.phases = {{"load", moment + ahead, moment + ahead}};
    mine.pings_at_end = group::ping(bootstrap, clock).value();
    auto all = group::gather_timelines(bootstrap, mine).value();
    if (rank == 0) found = std::move(all);
  });
  ASSERT_EQ(found.size(), 3u);
  for (const trace::RankTimeline& rank : found) {
    const Duration off = rank.phases[0].begin - moment;
    EXPECT_LE(std::max(off, -off), rank.clock_error) << rank.rank;
  }
  EXPECT_GT(found[2].clock_error, Duration{});
}

TEST(PeriodicFile, WritesAtOnceAndAgain) {
  const model::TinyModel folder{model::kTinyLlama};
  const auto path = folder.path() / "out.prom";
  std::mutex mutex;
  std::condition_variable changed;
  int calls = 0;
  {
    const PeriodicFile file(path, milliseconds(1), [&] {
      std::lock_guard lock(mutex);
      changed.notify_all();
      return std::to_string(++calls);
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(30), [&] { return calls >= 3; }));
  }
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, std::to_string(calls));  // the last one is whole, and none follows
}

}  // namespace
}  // namespace lockstep::observe
