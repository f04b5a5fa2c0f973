#include "runtime/constraint/grammar.h"

namespace lockstep::constraint {

Result<void> check_build() {
  return Error{ErrorKind::kUnsupported,
               "[runtime/constraint] cannot constrain an answer: found a build without LOCKSTEP_WITH_CONSTRAINTS, "
               "expected xgrammar's sources; run scripts/setup and build again"};
}

Result<std::unique_ptr<GrammarCompiler>> make_grammar_compiler(TokenTable) { return check_build().error(); }

}  // namespace lockstep::constraint
