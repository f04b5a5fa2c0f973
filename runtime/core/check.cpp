#include "runtime/core/check.h"

namespace lockstep::detail {

void fail_check(std::string_view condition, std::string_view file, int line, std::string_view operands) {
  throw CheckFailure(fmt::format("check failed at {}:{}: {}{}", file, line, condition, operands));
}

}  // namespace lockstep::detail
