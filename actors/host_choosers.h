// Rank 0's account of the requests that the host chooses for: hands the logits of a step to their choosers and turns
// what these say into one decision about slots, which every rank then takes.
//
//   logits of slots ─► rows of a chooser ─► choose ─► tokens, sources ─► slots
//
// Rows keep their slots where they can; the slot of a row that nobody goes on from is given to a second heir:
//
//   rows go on from   0 0 2 2        row 0 stays in slot 4, row 2 in slot 6 (its first heir)
//   they were in      4 5 6 7   ─►   row 1 becomes a copy of slot 4 in slot 5, row 3 one of slot 6 in slot 7
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

/// The slots of rows that go on from the rows `sources` of those in `slots`. A slot that is somebody's source is never
/// given to another.
std::vector<SlotId> continue_rows(std::span<const SlotId> slots, std::span<const int32_t> sources);

/// Thread-safe: the coordinator opens and closes, rank 0's executor decides. A choice under way is waited for, so that
/// nobody calls a chooser after `close`.
class HostChoosers {
 public:
  /// `admission` is that of `request`, which has a chooser.
  void open(const Request& request, const Admission& admission);

  /// Forgets the request: whichever of its slots still run are ended by the next decision. Nothing when it is unknown.
  void close(RequestId request);

  /// Asks the choosers of those requests in `hosts` whose logits are complete. `with_logits` [slots] says which slots
  /// `output` has logits of; `decision` leaves every slot as it is and gets what was chosen. A chooser that throws, or
  /// says what cannot be, ends its request with an error.
  std::vector<HostChoice> decide(std::span<const HostSlots> hosts, std::span<const uint8_t> with_logits,
                                 const shards::StepOutput& output, shards::Decision& decision);

 private:
  struct Row {
    SlotId slot;
    bool has_begun = false;   // has a prompt, or was made a copy
    bool has_logits = false;  // of this round
  };
  struct Entry {
    std::shared_ptr<generation::TokenChooser> chooser;  // the client has it as well
    std::vector<Row> rows;
    bool is_mixed = false;  // its rows differ in their rope factors, so none may go on from another
    int64_t budget = 1;     // choices
    int64_t made = 0;
    std::vector<float> logits = {};  // [rows, V]
  };
  struct Step {
    std::span<const uint8_t> with_logits;
    const shards::StepOutput& output;
    shards::Decision& decision;
  };

  static std::optional<HostChoice> ask(const HostSlots& host, Entry& entry, const Step& step);
  static Result<std::optional<HostChoice>> advance(RequestId request, Entry& entry, const Step& step);
  static void take_logits(Entry& entry, const Step& step);
  static Result<void> check(RequestId request, const Entry& entry, const generation::Choice& choice);
  static void apply(Entry& entry, const generation::Choice& choice, shards::Decision& decision);

  std::mutex mutex_;
  std::map<RequestId, Entry> entries_;
};

}  // namespace lockstep::actors
