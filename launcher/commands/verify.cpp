// `lockstep verify`: the weight files of a model and the sums beside them.
#include "launcher/commands/verify.h"

#include <fmt/format.h>

#include "lockstep/verify.h"
#include "runtime/core/ids.h"

namespace lockstep::launcher {

Result<void> verify(const VerifyCommand& command) {
  if (command.replaces && !command.writes) {
    return Error{ErrorKind::kInvalidArgument, "[launcher] --replace: found no --write, expected it; add --write"};
  }
  const SumsAction writing = command.replaces ? SumsAction::kReplace : SumsAction::kWrite;
  LOCKSTEP_TRY(const VerifiedModel verified,
               verify_model(command.model,
                            {.action = command.writes ? writing : SumsAction::kCheck, .threads = command.threads}));
  fmt::print("{}: {} tensors of {} {} {}\n", command.model.string(), verified.tensors, to_string(Bytes(verified.bytes)),
             command.writes ? "summed in" : "verified, as", verified.sums.string());
  return ok();
}

}  // namespace lockstep::launcher
