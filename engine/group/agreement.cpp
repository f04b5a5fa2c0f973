#include "engine/group/agreement.h"

#include <fmt/format.h>

#include "engine/group/build_id.h"
#include "runtime/device/rank_exchange.h"

namespace lockstep::group {

Result<void> all_succeeded(transport::Bootstrap& bootstrap, const Result<void>& mine) {
  return device::all_succeeded([&](std::string_view text) { return bootstrap.exchange(text); }, mine);
}

std::string statement_of_program() {
  return fmt::format("version {}\ncompiler {}\nbuild {}\n", LOCKSTEP_VERSION, __VERSION__, build_id());
}

Result<std::string> value_of_rank_0(transport::Bootstrap& bootstrap, const std::string& mine) {
  LOCKSTEP_TRY(std::vector<std::string> all, bootstrap.exchange(bootstrap.rank() == 0 ? mine : ""));
  return std::move(all.front());
}

}  // namespace lockstep::group
