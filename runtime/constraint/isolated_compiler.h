// Constraints that separate processes compile and apply, so that a hostile one can be ended: time and memory have
// limits.
//
//   engine ──formats──► host (program lockstep-constraint; holds the vocabulary)
//      │                  └─ fork ─► constraint: compiles, limited ─┬─ fork ─► answer: masks, limited
//      │◄──────── done | error ──────┘                              └─ fork ─► answer
//      └──tokens──────────────────────────────────────────────────────────────►│
//      ◄─masks──── computed while the ranks run the next step ─────────────────┘
//
// A process that exceeds its limit is killed, and its request ends with an error in words. The others are not held up.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/constraint/constraint.h"
#include "runtime/core/clock.h"
#include "runtime/core/ids.h"

namespace lockstep::constraint {

/// Of one constraint and its answers. Times are those of a processor.
struct IsolationLimits {
  Duration compile = std::chrono::seconds(3);           // with the first mask
  Duration most_mask = std::chrono::milliseconds(500);  // of one mask; used up by masks above `mask`
  Duration mask = std::chrono::milliseconds(4);         // of an answer's masks on average
  Bytes memory = Bytes(int64_t{1} << 30);               // of a process, beyond the vocabulary
};

/// Compiles several constraints at once. `program` is lockstep-constraint; it is started with the first constraint, and
/// again after it was lost. The tokenizer is not kept. Fails with `kUnsupported` in a build without constraints.
Result<std::unique_ptr<Compiler>> make_isolated_compiler(const text::Tokenizer& tokenizer, int64_t vocabulary,
                                                         std::filesystem::path program, IsolationLimits limits = {});

}  // namespace lockstep::constraint
