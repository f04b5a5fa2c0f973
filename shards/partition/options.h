// The user's choices for dividing a model between ranks.
#pragma once

#include <array>
#include <string_view>

#include "runtime/core/field_list.h"

namespace lockstep::partition {

/// The division of a mixture's experts: columns of every expert on each rank, or whole experts.
enum class ExpertSplit { kColumns, kWhole };

/// The order of sums over ranks. Invariant: along a tree over blocks fixed by the configuration, so sums are the same
/// to the bit at every degree. Fast: each rank's share first, then the ranks in turn; rounding depends on the degree.
enum class Numerics { kInvariant, kFast };
/// "invariant" or "fast".
std::string_view name_of(Numerics numerics);

/// Placement of key/value heads (gqa_mode.h).
enum class GqaMode { kAuto, kHeads, kReplicated, kAllGather, kBatch };
/// The modes that a model can run in: all but auto.
inline constexpr std::array kGqaModes = {GqaMode::kHeads, GqaMode::kReplicated, GqaMode::kAllGather, GqaMode::kBatch};
/// "auto", "heads", "replicated", "all-gather", "batch".
std::string_view name_of(GqaMode mode);

struct Options {
  ExpertSplit experts = ExpertSplit::kColumns;
  Numerics numerics = Numerics::kInvariant;
  GqaMode gqa = GqaMode::kAuto;

  friend bool operator==(const Options&, const Options&) = default;
};
LOCKSTEP_FIELDS(Options, experts, numerics, gqa);

}  // namespace lockstep::partition
