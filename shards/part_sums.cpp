#include "shards/part_sums.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "runtime/core/check.h"

namespace lockstep::shards {
namespace {

using checkpoint::SummedKind;

/// Values of one type as bytes. All ranks run the same program.
template <typename Value>
std::string bytes_of(std::span<const Value> values) {
  static_assert(std::is_trivially_copyable_v<Value>);
  const auto bytes = std::as_bytes(values);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename Value>
std::vector<Value> values_from(std::string_view bytes) {
  LOCKSTEP_CHECK(bytes.size() % sizeof(Value) == 0, bytes.size());
  std::vector<Value> values(bytes.size() / sizeof(Value));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

bool overlap(Range a, Range b) { return a.begin < b.end && b.begin < a.end; }

/// Rows of a tensor, and columns.
using Place = std::tuple<int64_t, int64_t, int64_t, int64_t>;

Place place_of(const TensorPart& part) {
  return {part.columns.begin, part.columns.end, part.rows.begin, part.rows.end};
}

/// The sums of one tensor, by kind and place; equal places have the sums of several ranks.
using SumsByPlace = std::map<Place, std::vector<TensorSum>>;

std::map<SummedKind, SumsByPlace> sums_of(const SummedModel& model, int32_t tensor) {
  std::map<SummedKind, SumsByPlace> found;
  for (size_t rank = 0; rank < model.pieces.size(); ++rank) {
    for (size_t i = 0; i < model.pieces[rank].size(); ++i) {
      const PieceSum& sum = model.sums[rank][i];
      const TensorPart& piece = model.pieces[rank][i];
      if (piece.tensor == tensor && sum.is_summed) found[sum.kind][place_of(piece)].push_back(sum.sum);
    }
  }
  return found;
}

/// Whether `shape` is covered by the places, each element once.
bool cover(const SumsByPlace& sums, const Shape& shape) {
  const int64_t all_rows = shape.rank() == 0 ? 1 : shape[0], all_columns = shape.rank() < 2 ? 1 : shape[1];
  int64_t column = 0, end = 0, row = all_rows;  // the columns before are complete; so are rows before `row` in these
  for (const auto& [place, same] : sums) {
    const auto& [column_begin, column_end, row_begin, row_end] = place;
    if (column_begin != column || column_end != end) {
      if (row != all_rows || column_begin != end) return false;
      column = column_begin, end = column_end, row = 0;
    }
    if (row_begin != row) return false;
    row = row_end;
  }
  return row == all_rows && end == all_columns;
}

std::optional<WholeSum> whole_of(const SumsByPlace& sums, const Shape& shape, SummedKind kind) {
  if (!cover(sums, shape)) return std::nullopt;
  WholeSum whole;
  const int64_t columns = shape.rank() < 2 ? 1 : shape[1];
  for (const auto& [place, same] : sums) {
    whole.sum += same.front();
    for (const int64_t cut : {std::get<0>(place), std::get<1>(place)}) {
      if (cut != columns && !checkpoint::is_between_lanes(kind, cut)) whole.has_mixed = false;
    }
  }
  return whole;
}

}  // namespace

std::vector<TensorPart> parts_of(const graph::Graph& graph, const std::map<std::string, Shape>& tensors) {
  std::map<std::string_view, int32_t> place;
  for (const auto& [name, shape] : tensors) place.emplace(name, static_cast<int32_t>(place.size()));
  std::vector<TensorPart> parts;
  int32_t slice_number = 0;
  for (const graph::ValueId id : graph.values_of(graph::ValueKind::kWeight)) {
    for (const graph::WeightSlice& slice : graph.value(id).slices) {
      LOCKSTEP_CHECK(place.contains(slice.tensor), slice.tensor);
      parts.push_back({place.at(slice.tensor), slice_number++, slice.range.empty() ? Range{0, 1} : slice.range[0],
                       slice.range.size() < 2 ? Range{0, 1} : slice.range[1]});
    }
  }
  return parts;
}

std::string to_bytes(std::span<const TensorPart> parts) { return bytes_of(parts); }
std::vector<TensorPart> parts_from_bytes(std::string_view bytes) { return values_from<TensorPart>(bytes); }
std::string to_bytes(std::span<const PieceSum> sums) { return bytes_of(sums); }
std::vector<PieceSum> sums_from_bytes(std::string_view bytes) { return values_from<PieceSum>(bytes); }

std::vector<std::vector<TensorPart>> cut_parts(const std::vector<std::vector<TensorPart>>& by_rank) {
  std::map<int32_t, std::set<int64_t>> cuts;
  for (const auto& parts : by_rank) {
    for (const TensorPart& part : parts) cuts[part.tensor].insert({part.rows.begin, part.rows.end});
  }
  std::vector<std::vector<TensorPart>> pieces(by_rank.size());
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const TensorPart& part : by_rank[rank]) {
      const std::set<int64_t>& of_tensor = cuts.at(part.tensor);
      for (int64_t begin = part.rows.begin; begin < part.rows.end;) {
        const int64_t end = *of_tensor.upper_bound(begin);
        pieces[rank].push_back({part.tensor, part.slice, {begin, end}, part.columns});
        begin = end;
      }
    }
  }
  return pieces;
}

std::vector<bool> are_shared(const std::vector<std::vector<TensorPart>>& pieces, size_t rank) {
  std::map<std::pair<int32_t, int64_t>, std::vector<Range>> holders;  // columns, by tensor and first row
  for (const auto& of_rank : pieces) {
    for (const TensorPart& piece : of_rank) holders[{piece.tensor, piece.rows.begin}].push_back(piece.columns);
  }
  std::vector<bool> shared;
  for (const TensorPart& piece : pieces[rank]) {
    const std::vector<Range>& others = holders.at({piece.tensor, piece.rows.begin});
    shared.push_back(std::ranges::count_if(others, [&](Range columns) { return overlap(columns, piece.columns); }) > 1);
  }
  return shared;
}

void PartSums::Counted::add(const TensorSum& sum, SummedKind of) {
  mixed.fetch_add(sum.mixed, std::memory_order_relaxed);
  plain.fetch_add(sum.plain, std::memory_order_relaxed);
  kind.store(of, std::memory_order_relaxed);
}

PartSums::PartSums(std::vector<TensorPart> pieces, const std::vector<bool>& wanted)
    : pieces_(std::move(pieces)), counted_(pieces_.size()) {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    counted_[i].is_wanted = wanted[i];
    const auto at = static_cast<int64_t>(i);
    const auto [range, is_new] = pieces_of_slice_.try_emplace(pieces_[i].slice, Range{at, at});
    range->second.end = at + 1;
  }
}

bool PartSums::wants(int32_t slice) const {
  const auto found = pieces_of_slice_.find(slice);
  if (found == pieces_of_slice_.end()) return false;
  for (int64_t i = found->second.begin; i < found->second.end; ++i) {
    if (counted_[static_cast<size_t>(i)].is_wanted) return true;
  }
  return false;
}

/// Calls `sum(rows)` for the rows of each wanted piece.
template <typename Sum>
void PartSums::add(int32_t slice, Range rows, SummedKind kind, const Sum& sum) {
  const Range own = pieces_of_slice_.at(slice);
  for (int64_t i = own.begin; i < own.end; ++i) {
    const auto at = static_cast<size_t>(i);
    const Range part{std::max(rows.begin, pieces_[at].rows.begin), std::min(rows.end, pieces_[at].rows.end)};
    if (part.begin < part.end && counted_[at].is_wanted) counted_[at].add(sum(part), kind);
  }
}

void PartSums::add_elements(int32_t slice, std::span<const std::byte> elements, DType dtype,
                            std::span<const Range> ranges) {
  const Range rows = ranges.empty() ? Range{0, 1} : ranges[0];
  const size_t row_bytes = elements.size() / static_cast<size_t>(std::max<int64_t>(1, rows.size()));
  std::vector<Range> some(ranges.begin(), ranges.end());
  add(slice, rows, checkpoint::summed_kind(dtype), [&](Range part) {
    if (!some.empty()) some[0] = part;
    return checkpoint::sum_of_elements(elements.subspan(static_cast<size_t>(part.begin - rows.begin) * row_bytes,
                                                        static_cast<size_t>(part.size()) * row_bytes),
                                       dtype, some);
  });
}

void PartSums::add_codes(int32_t slice, const CodedRows& read, const WeightFormat& format, Range rows, Range columns) {
  add(slice, rows, SummedKind::kCodes, [&](Range part) {
    const auto of_part = [&](auto all) {
      const size_t per_row = all.size() / static_cast<size_t>(rows.size());
      return all.subspan(static_cast<size_t>(part.begin - rows.begin) * per_row,
                         static_cast<size_t>(part.size()) * per_row);
    };
    return checkpoint::sum_of_codes({of_part(read.codes), of_part(read.scales), of_part(read.offsets)}, format, part,
                                    columns);
  });
}

std::vector<PieceSum> PartSums::values() const {
  std::vector<PieceSum> values;
  for (const Counted& counted : counted_) {
    PieceSum& value = values.emplace_back();
    value.sum = {counted.mixed.load(std::memory_order_relaxed), counted.plain.load(std::memory_order_relaxed)};
    value.kind = counted.kind.load(std::memory_order_relaxed);
    value.is_summed = counted.is_wanted;
  }
  return values;
}

std::optional<WholeSum> whole_sum(const SummedModel& model, int32_t tensor, SummedKind kind) {
  const auto sums = sums_of(model, tensor);
  const auto found = sums.find(kind);
  const Shape& shape = std::next(model.tensors.begin(), tensor)->second;
  return found == sums.end() ? std::nullopt : whole_of(found->second, shape, kind);
}

namespace {

/// The outcome for one tensor.
enum class TensorOutcome { kVerified, kShared, kAlone, kDiffers };

TensorOutcome outcome_of(const std::map<SummedKind, SumsByPlace>& sums, bool all_summed, const Shape& shape,
                         const checkpoint::TensorSums* expected) {
  bool is_verified = expected != nullptr && all_summed && !sums.empty(), is_shared = all_summed && !sums.empty();
  for (const auto& [kind, by_place] : sums) {
    for (const auto& [place, same] : by_place) {
      if (std::ranges::any_of(same, [&same = same](const TensorSum& sum) { return sum != same.front(); })) {
        return TensorOutcome::kDiffers;
      }
      is_shared = is_shared && same.size() > 1;
    }
    if (expected == nullptr) continue;
    const auto whole = whole_of(by_place, shape, kind);
    const auto should = expected->sums.find(kind);
    if (!whole || should == expected->sums.end()) {
      is_verified = false;
    } else if (!whole->equals(should->second)) {
      return TensorOutcome::kDiffers;
    }
  }
  if (is_verified) return TensorOutcome::kVerified;
  return is_shared ? TensorOutcome::kShared : TensorOutcome::kAlone;
}

}  // namespace

SumComparison compare_sums(const SummedModel& model, const checkpoint::WeightSums* expected) {
  struct Found {
    std::map<SummedKind, SumsByPlace> sums;
    bool all_summed = true;
  };
  std::map<int32_t, Found> by_tensor;
  for (size_t rank = 0; rank < model.pieces.size(); ++rank) {
    LOCKSTEP_CHECK(model.pieces[rank].size() == model.sums[rank].size(), rank);
    for (size_t i = 0; i < model.pieces[rank].size(); ++i) {
      const PieceSum& sum = model.sums[rank][i];
      Found& found = by_tensor[model.pieces[rank][i].tensor];
      if (sum.is_summed) found.sums[sum.kind][place_of(model.pieces[rank][i])].push_back(sum.sum);
      found.all_summed = found.all_summed && sum.is_summed;
    }
  }
  std::vector<const std::pair<const std::string, Shape>*> tensors;
  for (const auto& tensor : model.tensors) tensors.push_back(&tensor);
  SumComparison comparison;
  for (const auto& [tensor, found] : by_tensor) {
    const auto& [name, shape] = *tensors.at(static_cast<size_t>(tensor));
    const checkpoint::TensorSums* should = nullptr;
    if (expected != nullptr) {
      if (const auto at = expected->tensors.find(name); at != expected->tensors.end()) should = &at->second;
    }
    ++comparison.tensors;
    switch (outcome_of(found.sums, found.all_summed, shape, should)) {
      case TensorOutcome::kVerified: ++comparison.verified; break;
      case TensorOutcome::kShared: ++comparison.shared; break;
      case TensorOutcome::kAlone:
        if (comparison.alone++ == 0) comparison.example = name;
        break;
      case TensorOutcome::kDiffers:
        if (!comparison.suspect) comparison.suspect = tensor;
        break;
    }
  }
  return comparison;
}

namespace {

/// The pieces of one tensor with their ranks, in the order of ranks and pieces.
struct OwnedPiece {
  int rank = 0;
  TensorPart part;
  PieceSum sum;
};

std::vector<OwnedPiece> owned_pieces(const SummedModel& model, int32_t tensor) {
  std::vector<OwnedPiece> owned;
  for (size_t rank = 0; rank < model.pieces.size(); ++rank) {
    for (size_t i = 0; i < model.pieces[rank].size(); ++i) {
      const TensorPart& part = model.pieces[rank][i];
      if (part.tensor == tensor) owned.push_back({static_cast<int>(rank), part, model.sums[rank][i]});
    }
  }
  return owned;
}

/// Whether one reader's sums of all pieces make the expected ones.
bool makes_expected(const std::vector<OwnedPiece>& owned, const std::vector<PieceSum>& sums, const Shape& shape,
                    const checkpoint::TensorSums& expected) {
  std::map<SummedKind, SumsByPlace> by_kind;
  for (size_t i = 0; i < owned.size(); ++i) by_kind[sums[i].kind][place_of(owned[i].part)].push_back(sums[i].sum);
  return std::ranges::all_of(by_kind, [&](const auto& one) {
    const auto whole = whole_of(one.second, shape, one.first);
    const auto should = expected.sums.find(one.first);
    return whole && should != expected.sums.end() && whole->equals(should->second);
  });
}

/// The value that most readers have for piece `i`; empty if two values are as frequent.
std::optional<TensorSum> most_frequent(const std::vector<std::vector<PieceSum>>& again, size_t i) {
  std::optional<TensorSum> best;
  int64_t most = 0;
  for (const auto& reader : again) {
    const int64_t count =
        std::ranges::count_if(again, [&](const auto& other) { return other[i].sum == reader[i].sum; });
    if (count > most) {
      best = reader[i].sum;
      most = count;
    } else if (count == most && best && *best != reader[i].sum) {
      return std::nullopt;
    }
  }
  return best;
}

}  // namespace

std::vector<DifferingPart> differing_parts(const SummedModel& model, int32_t tensor,
                                           const std::vector<std::vector<PieceSum>>& again,
                                           const checkpoint::TensorSums* expected) {
  const std::vector<OwnedPiece> owned = owned_pieces(model, tensor);
  const Shape& shape = std::next(model.tensors.begin(), tensor)->second;
  const std::vector<PieceSum>* good = nullptr;
  for (const auto& reader : again) {
    LOCKSTEP_CHECK(reader.size() == owned.size(), reader.size(), owned.size());
    if (good == nullptr && expected != nullptr && makes_expected(owned, reader, shape, *expected)) good = &reader;
  }
  std::vector<DifferingPart> differing;
  for (size_t i = 0; i < owned.size(); ++i) {
    const auto should = good != nullptr ? std::optional((*good)[i].sum) : most_frequent(again, i);
    if (!owned[i].sum.is_summed || !should || *should == owned[i].sum.sum) continue;
    differing.push_back({owned[i].rank, owned[i].part, owned[i].sum.sum, *should});
  }
  return differing;
}

}  // namespace lockstep::shards
