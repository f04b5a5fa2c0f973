// How a model may be divided between ranks: what users choose.
#pragma once

#include <array>
#include <string_view>

#include "runtime/core/field_list.h"

namespace lockstep::partition {

/// How the experts of a mixture are divided: columns of every expert to each rank, or whole experts.
enum class ExpertSplit { kColumns, kWhole };

/// In which order a sum over ranks is taken. Invariant: along a tree over blocks that the configuration fixes, so that
/// it is the same to the bit at every degree. Fast: each rank's share in one go, then the ranks in turn; how it is
/// rounded depends on the degree.
enum class Numerics { kInvariant, kFast };
/// "invariant" or "fast".
std::string_view name_of(Numerics numerics);

/// How key/value heads meet their query heads (gqa_mode.h).
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
