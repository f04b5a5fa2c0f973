// Requests with choosers, on rank 0: passes a step's logits to the choosers and combines their choices into one
// decision about slots, which every rank applies.
//
//   logits of slots ─► rows of a chooser ─► choose ─► tokens, sources ─► slots
//
// Rows keep their slots where possible. The slot of a row without successors goes to a second successor of another row:
//
//   sources           0 0 2 2        row 0 stays in slot 4, row 2 in slot 6 (its first successor)
//   slots before      4 5 6 7   ─►   row 1 becomes a copy of slot 4 in slot 5, row 3 one of slot 6 in slot 7
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "actors/admission.h"
#include "actors/schedule.h"
#include "runtime/core/ids.h"
#include "runtime/generation/token_chooser.h"
#include "shards/step_engine.h"

namespace lockstep::actors {

/// The new slots of rows that continue the rows `sources` of those in `slots`. A slot that is a source keeps one of its
/// successors.
std::vector<SlotId> continue_rows(std::span<const SlotId> slots, std::span<const int32_t> sources);

/// Thread-safe: the coordinator opens and closes, rank 0's executor decides. `close` waits for a running choice, so no
/// chooser is called after it.
class HostChoosers {
 public:
  /// `admission` is that of `request`, which has a chooser.
  void open(const Request& request, const Admission& admission);

  /// Forgets the request; the next decision ends its running slots. Ignores an unknown request.
  void close(RequestId request);

  /// Calls the choosers of those requests in `hosts` whose logits are complete. `with_logits` [slots] marks the slots
  /// whose logits are in `output`; `decision` initially leaves every slot unchanged and receives the choices. A chooser
  /// that throws, or whose choice is invalid, ends its request with an error.
  std::vector<HostChoice> decide(std::span<const HostSlots> hosts, std::span<const uint8_t> with_logits,
                                 const shards::StepOutput& output, shards::Decision& decision);

 private:
  struct Row {
    SlotId slot;
    bool has_begun = false;   // prefilled or copied
    bool has_logits = false;  // in this round
  };
  struct Entry {
    std::shared_ptr<generation::TokenChooser> chooser;  // shared with the client
    std::vector<Row> rows;
    bool is_mixed = false;  // its rows differ in their rope factors, so none may continue another
    int64_t budget = 1;     // choices
    int64_t made = 0;
    std::vector<float> logits = {};  // [rows, V] of several rows
  };
  struct Step {
    std::span<const uint8_t> with_logits;
    const shards::StepOutput& output;
    shards::Decision& decision;
  };

  static std::optional<HostChoice> ask(const HostSlots& host, Entry& entry, const Step& step);
  static Result<std::optional<HostChoice>> advance(RequestId request, Entry& entry, const Step& step);
  static std::span<const float> take_logits(Entry& entry, const Step& step);
  static Result<void> check(RequestId request, const Entry& entry, const generation::Choice& choice,
                            int64_t vocabulary);
  static void apply(Entry& entry, const generation::Choice& choice, shards::Decision& decision);

  std::mutex mutex_;
  std::map<RequestId, Entry> entries_;
};

}  // namespace lockstep::actors
