#include "runtime/constraint/constraint.h"

namespace lockstep::constraint {

Result<std::unique_ptr<Compiler>> make_compiler(const text::Tokenizer&, int64_t) {
  return Error{ErrorKind::kUnsupported,
               "[runtime/constraint] cannot constrain an answer: found a build without LOCKSTEP_WITH_CONSTRAINTS, "
               "expected xgrammar's sources; run scripts/setup and build again"};
}

}  // namespace lockstep::constraint
