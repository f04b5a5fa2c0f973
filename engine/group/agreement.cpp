#include "engine/group/agreement.h"

#include <fmt/format.h>

#include <map>
#include <sstream>

#include "engine/group/build_id.h"
#include "runtime/device/rank_exchange.h"

namespace lockstep::group {
namespace {

std::string name_of(const std::string& line) { return line.substr(0, line.rfind(' ')); }

}  // namespace

Result<void> all_succeeded(transport::Bootstrap& bootstrap, const Result<void>& mine) {
  return device::all_succeeded([&](std::string_view text) { return bootstrap.exchange(text); }, mine);
}

std::string statement_of_program() {
  return fmt::format("version {}\ncompiler {}\nbuild {}\n", LOCKSTEP_VERSION, __VERSION__, build_id());
}

Result<std::string> common_lines(transport::Bootstrap& bootstrap, const std::string& own) {
  LOCKSTEP_TRY(const std::vector<std::string> all, bootstrap.exchange(own));
  std::map<std::string, int> holders;
  for (const std::string& lines : all) {
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) ++holders[name_of(line)];
  }
  std::string common;
  std::istringstream stream(own);
  for (std::string line; std::getline(stream, line);) {
    if (holders[name_of(line)] == bootstrap.size()) common += line + "\n";
  }
  return common;
}

Result<std::string> value_of_rank_0(transport::Bootstrap& bootstrap, const std::string& mine) {
  LOCKSTEP_TRY(std::vector<std::string> all, bootstrap.exchange(bootstrap.rank() == 0 ? mine : ""));
  return std::move(all.front());
}

}  // namespace lockstep::group
