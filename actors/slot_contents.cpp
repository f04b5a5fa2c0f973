#include "actors/slot_contents.h"

#include <algorithm>

#include "runtime/core/check.h"

namespace lockstep::actors {

SlotContents::SlotContents(const PlannerLimits& limits)
    : limits_(limits),
      contents_(static_cast<size_t>(limits.slots)),
      trees_{PrefixTree(contents_.size()), PrefixTree(contents_.size())} {}

int64_t SlotContents::usable(const Contents& contents) {
  return std::ssize(contents.ids) - (contents.made > 0 ? 1 : 0);
}

shards::KeptPrefix SlotContents::best_prefix(std::span<const int32_t> ids, bool long_rope) const {
  const std::vector<int64_t> common = tree(long_rope).common(ids);
  int64_t most = limits_.shared_prefix - 1;
  std::optional<SlotId> best;
  for (size_t slot = 0; slot < contents_.size(); ++slot) {
    const Contents& contents = contents_[slot];
    const int64_t tokens = std::min({common[slot], usable(contents), std::ssize(ids) - 1});
    if (tokens <= most || !limits_.kept.allows(tokens, contents.written)) continue;
    most = tokens;
    best = SlotId(static_cast<int32_t>(slot));
  }
  if (!best) return {};
  return {*best, {ids.begin(), ids.begin() + most}};
}

std::optional<SlotId> SlotContents::place_to_save(SlotId slot, int64_t begin,
                                                  std::span<const SlotId> candidates) const {
  const Contents& contents = at(slot);
  if (usable(contents) - begin < limits_.shared_prefix || is_covered(slot)) return std::nullopt;
  std::optional<SlotId> oldest;
  int32_t least = contents.last_used;
  for (const SlotId candidate : candidates) {
    const int32_t last_used = at(candidate).ids.empty() || is_covered(candidate) ? -1 : at(candidate).last_used;
    if (last_used >= least) continue;
    least = last_used;
    oldest = candidate;
  }
  return oldest;
}

bool SlotContents::is_covered(SlotId slot) const {
  const Contents& contents = at(slot);
  const std::vector<size_t> longer = tree(contents.long_rope).extensions(static_cast<size_t>(slot.value));
  return std::ranges::any_of(longer, [&](size_t other) {
    return usable(contents_[other]) >= usable(contents) &&
           limits_.kept.allows(usable(contents), contents_[other].written);
  });
}

void SlotContents::update_tree(SlotId slot) {
  const Contents& contents = at(slot);
  for (const bool long_rope : {false, true}) {
    tree(long_rope).set(static_cast<size_t>(slot.value),
                        contents.long_rope == long_rope ? std::span(contents.ids) : std::span<const int32_t>());
  }
}

/// Later tokens are not part of the copy.
void SlotContents::save(SlotId from, SlotId to) {
  at(to) = at(from);
  at(to).owner.reset();
  at(to).ids.resize(static_cast<size_t>(usable(at(to))));
  at(to).made = 0;
  update_tree(to);
}

void SlotContents::open(SlotId slot, const Sequence& sequence) {
  for (Contents& contents : contents_) {
    if (contents.owner == sequence.owner) contents.owner.reset();  // the first part of a sequence that continues here
  }
  // Tokens lost from rings stay lost when a shorter sequence continues.
  const int64_t written = sequence.begin.ids.empty() ? 0 : at(sequence.begin.source).written;
  const int32_t last_used = at(slot).last_used;
  at(slot) = {.owner = sequence.owner,
              .ids = sequence.begin.ids,
              .length = std::ssize(sequence.begin.ids),
              .most = sequence.most,
              .written = written,
              .long_rope = sequence.long_rope,
              .last_used = last_used};
  update_tree(slot);
}

void SlotContents::note_length(Contents& contents, int64_t length) {
  contents.length = length;
  contents.written = std::max(contents.written, length);
}

void SlotContents::note_decoded(SlotId slot, int64_t tokens) {
  Contents& contents = at(slot);
  note_length(contents, std::min(contents.length + tokens, contents.most));
}

void SlotContents::forget(SlotId slot) {
  at(slot) = {.owner = {}, .ids = {}, .last_used = at(slot).last_used};
  update_tree(slot);
}

void SlotContents::note_row(SlotId slot, int32_t id, int64_t position) {
  Contents& contents = at(slot);
  if (!contents.owner) return;
  LOCKSTEP_CHECK(std::ssize(contents.ids) == position, slot, contents.ids.size(), position);
  contents.ids.push_back(id);
  tree(contents.long_rope).append(static_cast<size_t>(slot.value), id);
  note_length(contents, position + 1);
}

void SlotContents::note_copy(const shards::SlotCopy& copy) {
  if (!at(copy.dst).owner) return;
  if (!at(copy.src).owner) return forget(copy.dst);
  at(copy.dst).ids = at(copy.src).ids;
  at(copy.dst).length = at(copy.src).length;
  at(copy.dst).written = at(copy.src).written;
  update_tree(copy.dst);
}

void SlotContents::note_token(RequestId owner, int32_t id) {
  const auto found = std::ranges::find(contents_, std::optional(owner), &Contents::owner);
  if (found == contents_.end()) return;
  found->ids.push_back(id);
  ++found->made;
  tree(found->long_rope).append(static_cast<size_t>(found - contents_.begin()), id);
}

}  // namespace lockstep::actors
