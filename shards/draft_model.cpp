#include "shards/draft_model.h"

#include <fmt/format.h>

namespace lockstep::shards {
namespace {

class DraftModel final : public Drafter {
 public:
  DraftModel(std::unique_ptr<Shard> shard, int64_t drafts) : shard_(std::move(shard)), drafts_(drafts) {}

  Result<void> open_slot(SlotId slot, const SlotParameters& parameters) override {
    SlotParameters endless = parameters;  // the target decides where a sequence ends
    endless.eos_ids.clear();
    endless.max_new_tokens = std::numeric_limits<int32_t>::max();
    endless.long_rope = false;
    return shard_->open_slot(slot, endless);
  }

  Result<void> close_slot(SlotId slot) override { return shard_->close_slot(slot); }

  KeptTokens kept_tokens() const override { return shard_->kept_tokens(); }
  Result<void> save_slot(SlotCopy copy, int64_t tokens) override { return shard_->save_slot(copy, tokens); }
  Result<void> begin_with(SlotId slot, const KeptPrefix& prefix) override { return shard_->begin_with(slot, prefix); }

  Result<void> prefill(const PrefillRows& rows, StepTag tag, const Shard& target, const StepOutput&) override {
    LOCKSTEP_TRY_VOID(shard_->prefill(rows, tag));
    return follow_all(target);
  }

  Result<void> propose(const Shard&, StepTag tag, std::span<int32_t> drafted) override {
    for (int64_t i = 0; i <= drafts_; ++i) {
      LOCKSTEP_TRY(const StepOutput output, shard_->decode(tag));
      if (i == drafts_) break;  // the last step only fills the cache
      for (int64_t slot = 0; slot < shard_->slots(); ++slot) {
        drafted[static_cast<size_t>(slot * drafts_ + i)] = output.tokens[static_cast<size_t>(slot)];
      }
    }
    return ok();
  }

  Result<void> follow(const Shard& target, const StepOutput&) override { return follow_all(target); }
  void time_device() override { shard_->time_device(); }
  device::DeviceTime device_time() const override { return shard_->device_time(); }

 private:
  Result<void> follow_all(const Shard& target) {
    for (int32_t slot = 0; slot < shard_->slots(); ++slot) {
      LOCKSTEP_TRY_VOID(shard_->follow(SlotId(slot), target));
    }
    return ok();
  }

  std::unique_ptr<Shard> shard_;
  int64_t drafts_;
};

}  // namespace

Result<std::unique_ptr<Drafter>> make_draft_model(std::unique_ptr<Shard> shard, const Shard& target) {
  const int64_t drafts = target.options().drafts, room = target.capacity() + drafts + 1;
  const int64_t vocabulary = shard->graphs().vocabulary(), expected = target.graphs().vocabulary();
  const bool fits = shard->slots() == target.slots() && shard->chunk() == target.chunk() && shard->capacity() >= room &&
                    vocabulary == expected;
  if (!fits) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[shards] cannot draft with that model: found {} slots, chunk {}, capacity {} and {} tokens "
                    "in its vocabulary, expected {}, {}, {} or more and {}; use a draft model with the target's "
                    "tokenizer",
                    shard->slots(), shard->chunk(), shard->capacity(), vocabulary, target.slots(), target.chunk(), room,
                    expected)};
  }
  return std::unique_ptr<Drafter>(std::make_unique<DraftModel>(std::move(shard), drafts));
}

}  // namespace lockstep::shards
