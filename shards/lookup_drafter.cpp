#include "shards/lookup_drafter.h"

#include <algorithm>
#include <vector>

namespace lockstep::shards {
namespace {

class LookupDrafter final : public Drafter {
 public:
  LookupDrafter(int64_t slots, int64_t drafts, int64_t capacity, const generation::PromptLookup& lookup)
      : capacity_(capacity), lookup_(lookup), sequences_(static_cast<size_t>(slots)) {
    lookup_.tokens = static_cast<int32_t>(drafts);
  }

  Result<void> open_slot(SlotId slot, const SlotParameters& parameters) override {
    at(slot) = {.eos = parameters.eos_ids};
    return ok();
  }

  Result<void> close_slot(SlotId slot) override {
    at(slot) = {};
    return ok();
  }

  KeptTokens kept_tokens() const override { return {.whole = capacity_, .rewind = capacity_}; }
  Result<void> save_slot(SlotCopy, int64_t) override { return ok(); }
  Result<void> begin_with(SlotId slot, const KeptPrefix& prefix) override {
    at(slot).ids = prefix.ids;
    return ok();
  }

  Result<void> prefill(const PrefillRows& rows, StepTag, const Shard&, const StepOutput& output) override {
    for (const SlotCopy& copy : rows.copies) at(copy.dst).ids = at(copy.src).ids;
    for (size_t row = 0; row < rows.ids.size(); ++row) at(SlotId(rows.slot[row])).ids.push_back(rows.ids[row]);
    for (size_t slot = 0; slot < rows.logit_rows.size(); ++slot) {
      if (rows.logit_rows[slot] >= 0) sequences_[slot].ids.push_back(output.tokens[slot]);
    }
    return ok();
  }

  Result<void> propose(const Shard& target, StepTag, std::span<int32_t> drafted) override {
    std::ranges::fill(drafted, -1);
    for (size_t slot = 0; slot < sequences_.size(); ++slot) {
      const Sequence& sequence = sequences_[slot];
      LOCKSTEP_TRY(const bool runs, target.runs(SlotId(static_cast<int32_t>(slot))));
      if (!runs) continue;
      const std::vector<int32_t> found =
          generation::draft_by_lookup(sequence.ids, lookup_, capacity_ + 1, sequence.eos);
      std::ranges::copy(found, drafted.begin() + static_cast<std::ptrdiff_t>(slot) * lookup_.tokens);
    }
    return ok();
  }

  Result<void> follow(const Shard&, const StepOutput& output) override {
    const auto width = static_cast<size_t>(lookup_.tokens) + 1;
    for (size_t slot = 0; slot < sequences_.size(); ++slot) {
      const auto tokens = output.tokens.subspan(slot * width, width);
      const auto taken = tokens.begin() + (std::ranges::find(tokens, -1) - tokens.begin());
      sequences_[slot].ids.insert(sequences_[slot].ids.end(), tokens.begin(), taken);  // or pad, once it has finished
    }
    return ok();
  }

 private:
  struct Sequence {
    std::vector<int32_t> ids;  // prompt and output
    std::vector<int32_t> eos;
  };

  Sequence& at(SlotId slot) { return sequences_[static_cast<size_t>(slot.value)]; }

  int64_t capacity_;
  generation::PromptLookup lookup_;
  std::vector<Sequence> sequences_;
};

}  // namespace

std::unique_ptr<Drafter> make_lookup_drafter(const Shard& target, const generation::PromptLookup& lookup) {
  return std::make_unique<LookupDrafter>(target.slots(), target.options().drafts, target.capacity(), lookup);
}

}  // namespace lockstep::shards
