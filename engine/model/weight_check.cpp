#include "engine/model/weight_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "engine/group/agreement.h"

namespace lockstep::model {
namespace {

using checkpoint::SummedKind;
using shards::PieceSum;
using shards::TensorPart;

constexpr int64_t kReadAgainAtOnce = int64_t{1} << 20;  // elements

const std::pair<const std::string, Shape>& tensor_at(const std::map<std::string, Shape>& tensors, int32_t place) {
  return *std::next(tensors.begin(), place);
}

DType dtype_of(SummedKind kind) {
  if (kind == SummedKind::kFloat32) return DType::kFloat32;
  return kind == SummedKind::kBFloat16 ? DType::kBFloat16 : DType::kFloat16;
}

Result<TensorSum> sum_of_read_codes(const shards::WeightSource& source, const std::string& tensor, const Shape& whole,
                                    Range rows, Range columns) {
  const WeightFormat format = source.format_of(tensor).value_or(WeightFormat{});
  const int64_t groups = (columns.end + format.group - 1) / format.group - columns.begin / format.group;
  std::vector<uint8_t> codes(static_cast<size_t>(rows.size() * columns.size()));
  std::vector<float> scales(static_cast<size_t>(rows.size() * groups));
  std::vector<float> offsets(format.offset == GroupOffset::kNone ? 0 : scales.size());
  const CodedRows read{codes, scales, offsets};
  LOCKSTEP_TRY_VOID(source.read_codes(tensor, whole, rows, columns, read));
  return checkpoint::sum_of_codes(read, format, rows, columns);
}

/// Reads a part from its files and sums it as `kind`.
Result<PieceSum> sum_again(const shards::WeightSource& source, const std::string& tensor, const Shape& whole,
                           const TensorPart& part, SummedKind kind) {
  PieceSum sum{.kind = kind, .is_summed = true};
  const int64_t at_once = std::max(kReadAgainAtOnce / std::max<int64_t>(1, part.columns.size()), int64_t{1});
  std::vector<std::byte> elements;
  for (Range rows{part.rows.begin, 0}; rows.begin < part.rows.end; rows.begin = rows.end) {
    rows.end = std::min(rows.begin + at_once, part.rows.end);
    if (kind == SummedKind::kCodes) {
      LOCKSTEP_TRY(const TensorSum of_codes, sum_of_read_codes(source, tensor, whole, rows, part.columns));
      sum.sum += of_codes;
      continue;
    }
    std::vector<Range> ranges;
    if (whole.rank() > 0) ranges.push_back(rows);
    if (whole.rank() > 1) ranges.push_back(part.columns);
    const DType dtype = dtype_of(kind);
    elements.resize(static_cast<size_t>(rows.size() * part.columns.size()) * size_of(dtype));
    LOCKSTEP_TRY_VOID(source.read(tensor, whole, ranges, dtype, elements));
    sum.sum += checkpoint::sum_of_elements(elements, dtype, ranges);
  }
  return sum;
}

/// "2 tensors": with the plural.
std::string counted(int64_t count) { return fmt::format("{} tensor{}", count, count == 1 ? "" : "s"); }

}  // namespace

Result<void> WeightCheck::read_sums(const std::filesystem::path& model, const checkpoint::Checkpoint& checkpoint) {
  LOCKSTEP_TRY(const auto text, checkpoint::read_sums_text(model));
  if (!text) return ok();
  sums_path_ = checkpoint::path_of_sums(model);
  LOCKSTEP_TRY(expected_, checkpoint::parse_weight_sums(*text, sums_path_->string()));
  if (expected_->files == checkpoint.fingerprint()) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[engine/model] cannot verify the weights of {}: found sums of other files in {}, expected "
                           "those of the present files; fetch the weight files again, remove the sums, or write them "
                           "again with lockstep verify --write --replace",
                           model.string(), sums_path_->string())};
}

Result<void> WeightCheck::share_parts(group::Member& member, const shards::ShardGraphs& graphs) {
  tensors_ = graphs.tensors;
  LOCKSTEP_TRY(const std::string has_sums, group::value_of_rank_0(member.bootstrap(), expected_ ? "sums" : "none"));
  const auto missing = [&]() -> Result<void> {  // ranks without `expected_` have nothing to find
    for (const auto& [name, shape] : tensors_) {
      if (!expected_) break;
      const auto found = expected_->tensors.find(name);
      if (found != expected_->tensors.end() && found->second.shape == shape) continue;
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[engine/model] cannot verify the weights of {}: found no sum of {} {} in {}, expected "
                               "one of every tensor; write the sums again with lockstep verify --write --replace",
                               name_, name, to_string(shape), sums_path_->string())};
    }
    return ok();
  };
  LOCKSTEP_TRY_VOID(member.all_succeeded(missing()));
  const bool is_alone = member.size() == 1;
  if (is_alone && !expected_) {
    comparison_.tensors = comparison_.alone = std::ssize(tensors_);
    return ok();
  }
  const std::vector<TensorPart> own = shards::parts_of(graphs.decode.front(), tensors_);
  LOCKSTEP_TRY(const auto texts, member.bootstrap().exchange(shards::to_bytes(own)));
  Pieces parts;
  for (const std::string& text : texts) parts.push_back(shards::parts_from_bytes(text));
  pieces_ = shards::cut_parts(parts);
  const auto rank = static_cast<size_t>(member.rank());
  sums_ = std::make_unique<shards::PartSums>(
      pieces_[rank], has_sums == "sums" ? std::vector<bool>(pieces_[rank].size(), true) : are_shared(pieces_, rank));
  return ok();
}

Result<WeightCheck::Sums> WeightCheck::exchange(group::Member& member, std::span<const PieceSum> own) const {
  LOCKSTEP_TRY(const auto texts, member.bootstrap().exchange(shards::to_bytes(own)));
  Sums sums;
  for (const std::string& text : texts) sums.push_back(shards::sums_from_bytes(text));
  return sums;
}

Result<void> WeightCheck::compare(group::Member& member, const shards::WeightSource& source) {
  if (sums_ == nullptr) return ok();
  const std::vector<PieceSum> own = sums_->values();
  sums_.reset();
  LOCKSTEP_TRY(Sums sums, exchange(member, own));
  const shards::SummedModel model{tensors_, pieces_, std::move(sums)};
  if (member.leads()) comparison_ = shards::compare_sums(model, expected_ ? &*expected_ : nullptr);
  LOCKSTEP_TRY(const std::string suspect,
               group::value_of_rank_0(member.bootstrap(),
                                      comparison_.suspect ? std::to_string(*comparison_.suspect) : std::string()));
  if (!suspect.empty()) return explain(member, model, std::stoi(suspect), source);
  pieces_.clear();
  return ok();
}

/// Every rank reads all parts of the tensor again from its own files: this shows whose memory or files are wrong.
Result<void> WeightCheck::explain(group::Member& member, const shards::SummedModel& model, int32_t tensor,
                                  const shards::WeightSource& source) const {
  const auto& [name, shape] = tensor_at(tensors_, tensor);
  std::vector<PieceSum> own;
  const auto read_all = [&, &name = name, &shape = shape]() -> Result<void> {
    for (size_t rank = 0; rank < pieces_.size(); ++rank) {
      for (size_t i = 0; i < pieces_[rank].size(); ++i) {
        if (pieces_[rank][i].tensor != tensor) continue;
        LOCKSTEP_TRY(own.emplace_back(), sum_again(source, name, shape, pieces_[rank][i], model.sums[rank][i].kind));
      }
    }
    return ok();
  };
  LOCKSTEP_TRY_VOID(member.all_succeeded(read_all()));
  LOCKSTEP_TRY(const Sums again, exchange(member, own));
  return member.all_succeeded(member.leads() ? Result<void>(error_of(model, tensor, again)) : Result<void>(ok()));
}

Error WeightCheck::error_of(const shards::SummedModel& model, int32_t tensor, const Sums& again) const {
  const std::string& name = tensor_at(tensors_, tensor).first;
  const checkpoint::TensorSums* expected = nullptr;
  if (expected_ && expected_->tensors.contains(name)) expected = &expected_->tensors.find(name)->second;
  const auto differing = shards::differing_parts(model, tensor, again, expected);
  std::set<int> ranks;
  for (const shards::DifferingPart& part : differing) ranks.insert(part.rank);
  if (!differing.empty()) {
    const shards::DifferingPart& first = differing.front();
    Error error{ErrorKind::kFailedPrecondition,
                fmt::format("[engine/model] rank {}: the weights of {} are not those of the files: in {} (rows {}, "
                            "columns {}) found the sum {}, expected {}; check the memory, disk and files of {} {}",
                            fmt::join(ranks, ", "), name_, name, to_string(first.part.rows),
                            to_string(first.part.columns), to_string(first.found), to_string(first.expected),
                            ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "))};
    if (ranks.size() == 1) error.origin_rank = *ranks.begin();
    return error;
  }
  if (expected == nullptr) {
    return {ErrorKind::kFailedPrecondition,
            fmt::format("[engine/model] the ranks disagree on the weights of {}: found different files in the tensor "
                        "{}, expected one checkpoint on every host; copy the weight files again, and write their sums "
                        "with lockstep verify --write",
                        name_, name)};
  }
  return {ErrorKind::kInvalidArgument,
          fmt::format("[engine/model] the weights of {} have changed: found other values in the tensor {} than when {} "
                      "was written, expected equal sums; fetch the weight files again",
                      name_, name, sums_path_->string())};
}

std::string WeightCheck::in_words() const {
  const shards::SumComparison& found = comparison_;
  if (found.verified == found.tensors) {
    return fmt::format("weights of {}: all {} verified, as {} has them", name_, counted(found.tensors),
                       sums_path_->filename().string());
  }
  std::string text = fmt::format("weights of {}: {}", name_, counted(found.tensors));
  if (found.verified > 0) text += fmt::format(", {} verified", found.verified);
  if (found.shared > 0) text += fmt::format(", {} equal on all ranks that hold them", found.shared);
  if (found.alone > 0) text += fmt::format(", {} not verified", found.alone);
  if (!expected_) text += " (lockstep verify --write makes sums to compare with)";
  return text;
}

}  // namespace lockstep::model
