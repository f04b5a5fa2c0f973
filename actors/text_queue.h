// Texts with slots that are not yet scored, packed into score steps in order of admission.
//
//   text   t0 t1 t2 t3 t4        a row is a token with the next token as its target; the last token has no row
//   rows   t0 t1 t2 | t3         step 1 | step 2, with rows of the next text
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "actors/admission.h"
#include "runtime/core/ids.h"
#include "shards/step_engine.h"

namespace lockstep::actors {

/// First come, first served; pure.
class TextQueue {
 public:
  explicit TextQueue(const PlannerLimits& limits) : limits_(limits) {}

  /// A text for an open, empty slot; at least two ids.
  void add(SlotId slot, std::vector<int32_t> ids);

  /// Forgets the text of `slot`, if there is one.
  void drop(SlotId slot);

  bool is_empty() const { return pending_.empty(); }

  /// Whether the text of `slot` has rows left.
  bool has(SlotId slot) const;

  /// The next step: at least one row, at most `most` (at least 1) and those of a score step. There must be a text.
  shards::ScoreRows next_step(int64_t most);

 private:
  struct Pending {
    SlotId slot;
    std::vector<int32_t> ids;
    int64_t done = 0;  // rows in the steps so far

    int64_t rows() const { return static_cast<int64_t>(ids.size()) - 1; }
  };

  PlannerLimits limits_;
  std::list<Pending> pending_;
};

}  // namespace lockstep::actors
