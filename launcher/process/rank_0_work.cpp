#include "launcher/process/rank_0_work.h"

#include <future>

#include "engine/group/agreement.h"
#include "engine/group/state.h"
#include "runtime/core/guard.h"

namespace lockstep::launcher {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(500);
constexpr const char* kOver = "over";

}  // namespace

Result<bool> wait_for_rank_0(transport::Bootstrap& bootstrap, Duration limit,
                             const std::function<bool(Duration)>& look) {
  for (Duration waited{}; waited < limit; waited += kStep) {  // as many steps on every rank
    const bool is_over = bootstrap.rank() == 0 && look(kStep);
    LOCKSTEP_TRY(const std::string told, group::value_of_rank_0(bootstrap, is_over ? kOver : ""));
    if (told == kOver) return true;
  }
  return false;
}

Result<void> do_on_rank_0(Group& group, const std::function<Result<void>()>& work) {
  transport::Bootstrap& bootstrap = group::State::of(group).own_bootstrap();
  if (bootstrap.size() == 1) return work();
  std::future<Result<void>> done;
  if (group.leads()) done = std::async(std::launch::async, [&work] { return guarded("launcher", work); });
  const auto look = [&done](Duration step) { return done.wait_for(step) == std::future_status::ready; };
  LOCKSTEP_TRY_VOID(wait_for_rank_0(bootstrap, Duration::max(), look));
  const Result<void> mine = group.leads() ? done.get() : ok();
  const Result<void> all = group.all_succeeded(mine);
  return mine.has_value() ? all : mine;
}

}  // namespace lockstep::launcher
