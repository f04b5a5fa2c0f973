// Prefills a tiny model and decodes a given number of steps, on one rank of one thread. It runs the code of a rank's
// main thread: executor, hooks, flight recorder, step clock. For step_instructions_test.py, which counts instructions.
#include <fmt/format.h>

#include <cstdlib>

#include "actors/executor.h"
#include "engine/observe/step_clock.h"
#include "runtime/trace/flight_recorder.h"
#include "tests/step/tiny_rank.h"

namespace lockstep::step {
namespace {

Result<int64_t> decode(int32_t steps) {
  const TinyRank tiny = make_tiny_rank(1, 0, nullptr);
  const SteadyClock clock;
  trace::CollectiveLog collectives(0);
  observe::StepClock engine(*tiny.shard, collectives, clock, static_cast<size_t>(steps) + 1);
  trace::FlightRecorder recorder(clock);
  AbortFlag abort;
  actors::ScheduleQueue queue;
  queue.push({.number = 0,
              .opened = {{SlotId(0), {.max_new_tokens = kCapacity - kPromptTokens}}},
              .prefills = {prompt_rows()},
              .decode_steps = steps,
              .last = actors::Last::kYes});
  int64_t released = 0;
  actors::ExecutorHooks hooks;
  hooks.step = [&](const actors::ExecutorStatus& status) { recorder.begin_step(status.schedule, status.step); };
  hooks.released = [&](const std::vector<actors::StepResult>& results) { released += std::ssize(results); };
  actors::Executor executor(RankId(0), engine, queue, abort, std::move(hooks));
  LOCKSTEP_TRY_VOID(executor.run());
  return released;
}

}  // namespace
}  // namespace lockstep::step

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 8;
  const auto released = lockstep::step::decode(steps);
  if (!released.has_value()) {
    fmt::print(stderr, "{}\n", released.error().message);
    return 1;
  }
  return released.value() == steps + 1 ? 0 : 1;  // the prefill's token as well
}
