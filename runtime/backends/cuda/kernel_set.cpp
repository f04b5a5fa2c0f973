#include "runtime/backends/cuda/kernel_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cuda/images.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/probe_parameters.h"
#include "runtime/core/check.h"

namespace lockstep::cuda {
namespace {

/// Collects rows; a kernel has a form for each of `suffixes`.
class Rows {
 public:
  template <typename Parameters>
  void add(std::string_view image, std::string_view name, std::initializer_list<std::string_view> suffixes, int threads,
           int64_t shared_bytes = 0) {
    for (const std::string_view suffix : suffixes) {
      rows_.push_back({.name = fmt::format("{}{}", name, suffix),
                       .image = image,
                       .parameter_bytes = sizeof(Parameters),
                       .threads = threads,
                       .shared_bytes = shared_bytes});
    }
  }
  /// All kernels but those of these images call follow_previous.
  void follow_previous_except(std::initializer_list<std::string_view> images) {
    for (KernelRow& row : rows_) row.follows = std::ranges::find(images, row.image) == images.end();
  }
  std::vector<KernelRow> take() && { return std::move(rows_); }

 private:
  std::vector<KernelRow> rows_;
};

std::vector<KernelRow> make_rows() {
  const std::initializer_list<std::string_view> types = {"_f32", "_bf16", "_f16"}, sizes = {"_2", "_4"}, one = {""};
  const std::initializer_list<std::string_view> floats = {"_f32"}, halves = {"_bf16", "_f16"};
  constexpr int64_t kNorm = 2 * 32 * sizeof(float);  // NormShared
  Rows rows;
  rows.add<EmbedParameters>("embed", "embed", types, kEmbedThreads);
  rows.add<EmbedCodesParameters>("embed", "embed_codes", types, kEmbedThreads);
  rows.add<TakeRowsParameters>("take_rows", "take_rows", sizes, kTakeRowsThreads);
  rows.add<JoinHeadsParameters>("take_rows", "join_heads", sizes, kMapThreads);
  rows.add<TakeColumnsParameters>("take_rows", "take_columns", sizes, kMapThreads);
  rows.add<MapParameters>("map", "map", types, kMapThreads);
  rows.add<ScaleRowsParameters>("map", "scale_rows", types, kMapThreads);
  rows.add<RmsNormParameters>("rms_norm", "rms_norm", types, kNormThreads, kNorm);
  rows.add<LayerNormParameters>("layer_norm", "layer_norm", types, kNormThreads, kNorm);
  rows.add<StreamParameters>("streams", "cut_off", types, kNormThreads, kNorm);
  rows.add<StreamParameters>("streams", "match_magnitude", types, kNormThreads, kNorm);
  rows.add<WeightedSumParameters>("streams", "weighted_sum", types, kMapThreads);
  rows.add<ConvolveParameters>("recurrence", "causal_conv", types, kConvolveThreads);
  rows.add<DeltaRowParameters>("recurrence", "delta_norm", types, kDeltaThreads, 16 * sizeof(float));
  rows.add<DeltaRuleParameters>("recurrence", "delta_rule", types, kDeltaThreads, sizeof(DeltaShared));
  rows.add<DeltaRowParameters>("recurrence", "delta_keep", one, kDeltaThreads);
  rows.add<TurnTableParameters>("turn", "turn_table", one, kTurnThreads);
  rows.add<TurnParameters>("turn", "turn", types, kTurnThreads);
  rows.add<AppendParameters>("append", "append", sizes, kAppendThreads);
  rows.add<AppendParameters>("append", "append_codes", types, kAppendThreads);
  rows.add<HeadsParameters>("heads", "prepare_heads", types, kHeadsThreads, kHeadsSharedBytes);
  rows.add<HeadsParameters>("heads", "prepare_heads_joined", types, kHeadsThreads, kHeadsSharedBytes);
  rows.add<AttendParameters>("attend", "attend", floats, kAttendThreads, 2 * kTileTokens * sizeof(float));
  rows.add<AttendParameters>("attend", "attend_codes", floats, kAttendThreads, 2 * kTileTokens * sizeof(float));
  rows.add<AttendTilesParameters>("attend_tiles", "attend_tiles", floats, kAttendThreads, kMostSharedBytes);
  rows.add<AttendTilesParameters>("attend_tiles", "attend_tiles_codes", floats, kAttendThreads, kMostSharedBytes);
  rows.add<AttendTilesParameters>("attend_tiles_16", "attend_tiles", halves, kAttendThreads, kMostSharedBytes);
  rows.add<AttendTilesParameters>("attend_tiles_16", "attend_tiles_codes", halves, kAttendThreads, kMostSharedBytes);
  rows.add<AttendTilesParameters>("attend_fold", "attend_fold", types, kAttendThreads, kAttendFoldSharedBytes);
  rows.add<ProductFewParameters>("product_few", "product_few", types, kMostFewThreads, kMostSharedBytes);
  rows.add<AttendRowsParameters>("attend_rows", "attend_rows", floats, kRowsThreads, attend_rows_bytes(kRowsHeadDim));
  rows.add<AttendRowsParameters>("attend_rows", "attend_rows_codes", floats, kRowsThreads,
                                 attend_rows_bytes(kRowsHeadDim));
  rows.add<AttendRowsParameters>("attend_rows_16", "attend_rows", halves, kRows16Threads, kMostTilesBytes);
  rows.add<AttendRowsParameters>("attend_rows_16", "attend_pairs", halves, kRows16Threads, kMostTilesBytes);
  rows.add<AttendRowsParameters>("attend_rows_16_codes", "attend_rows_codes", halves, kRows16Threads, kMostTilesBytes);
  rows.add<AttendRowsParameters>("attend_rows_16_codes", "attend_pairs_codes", halves, kRows16Threads, kMostTilesBytes);
  rows.add<ProductParameters>("product", "product", types, kProductThreads, kProductSharedBytes);
  rows.add<ProductHeadsParameters>("product", "product_heads", types, kProductThreads, kProductSharedBytes);
  rows.add<ProductHeadsParameters>("product_tiles", "product_heads_tiles", types, kProductThreads, kMostTilesBytes);
  rows.add<ProductParameters>("product_tiles", "product_tiles", types, kProductThreads, kMostTilesBytes);
  rows.add<ProductParameters>("product_tiles", "product_wide", halves, kProductThreads, kMostTilesBytes);
  rows.add<QuantiseParameters>("quantise", "quantise", types, kQuantiseThreads);
  rows.add<FakeQuantiseParameters>("quantise", "fake_quantise", types, kQuantiseThreads);
  rows.add<ProductCodesParameters>("product_codes", "product_codes_few", types, kProductThreads,
                                   kProductCodesFewSharedBytes);
  rows.add<ProductCodesParameters>("product_codes", "product_codes", types, kProductThreads, kProductCodesSharedBytes);
  rows.add<RouteParameters>("experts", "route", one, kRouteThreads, kRouteSharedBytes);
  rows.add<ListExpertsParameters>("experts", "list_experts", one, kListThreads, kListExpertsSharedBytes);
  rows.add<ExpertsInnerParameters>("experts", "experts_inner_few", types, kProductThreads, kExpertsInnerFewSharedBytes);
  rows.add<ExpertsDownParameters>("experts", "experts_down_few", types, kProductThreads, kExpertsDownFewSharedBytes);
  rows.add<ExpertsInnerParameters>("experts", "experts_inner", types, kProductThreads, kExpertsInnerSharedBytes);
  rows.add<ExpertsDownParameters>("experts", "experts_down", types, kProductThreads, kExpertsDownSharedBytes);
  rows.add<ExpertsInnerCodesParameters>("experts_codes", "experts_inner_codes_few", types, kProductThreads,
                                        kExpertsInnerFewSharedBytes);
  rows.add<ExpertsDownCodesParameters>("experts_codes", "experts_down_codes_few", types, kProductThreads,
                                       kExpertsDownFewSharedBytes);
  rows.add<ExpertsInnerCodesParameters>("experts_codes", "experts_inner_codes", types, kProductThreads,
                                        kExpertsInnerCodesSharedBytes);
  rows.add<ExpertsDownCodesParameters>("experts_codes", "experts_down_codes", types, kProductThreads,
                                       kExpertsDownCodesSharedBytes);
  constexpr int64_t kRoots = int64_t{kMostRoots} * kMeetThreads * sizeof(float);
  rows.add<SumParameters>("sum", "sum_of_ranks", one, kMeetThreads, kRoots);
  rows.add<SumParameters>("sum", "sum_of_roots", one, kMeetThreads, kRoots);
  rows.add<SlicedSumParameters>("sum", "sum_in_slices", one, kMeetThreads, kRoots);
  rows.add<GatherParameters>("gather", "gather", sizes, kMeetThreads);
  rows.add<HostSumParameters>("hosts", "sum_of_host", one, kMeetThreads, kRoots);
  rows.add<HostsSumParameters>("hosts", "sum_of_hosts", one, kMeetThreads, kRoots);
  rows.add<HostsOwnersParameters>("hosts", "owners_of_hosts", sizes, kMeetThreads);
  rows.add<OwnersParameters>("owners", "rows_of_owners", sizes, kMeetThreads);
  rows.add<ProbeFillParameters>("probe", "probe_fill", one, kProbeThreads);
  rows.add<ProbeReadParameters>("probe", "probe_read", {"_4", "_8", "_16"}, kProbeThreads);
  rows.add<ProbeMultiplyParameters>("probe", "probe_multiply", {"_f32", "_bf16", "_f16", "_int8"}, kProbeThreads);
  rows.add<ProbeMultiplyParameters>("probe", "probe_multiply_groups", {"_bf16", "_f16"}, kProbeThreads,
                                    kProbeGroupsSharedBytes);
  rows.follow_previous_except({"experts", "experts_codes", "gather", "owners", "hosts", "probe"});
  return std::move(rows).take();
}

}  // namespace

std::span<const KernelRow> kernel_rows() {
  static const std::vector<KernelRow> kRows = make_rows();
  return kRows;
}

const KernelRow& kernel_row(std::string_view name) {
  const auto found = std::ranges::find(kernel_rows(), name, &KernelRow::name);
  LOCKSTEP_CHECK(found != kernel_rows().end(), name);
  return *found;
}

Result<std::unique_ptr<KernelSet>> KernelSet::load(const cu::Context& context) {
  auto set = std::make_unique<KernelSet>();
  if (images().empty()) {
    return Error{ErrorKind::kUnavailable,
                 "[runtime/backends/cuda] found no device images in this build, expected one of a build with nvcc; "
                 "run scripts/setup and configure with -DLOCKSTEP_WITH_CUDA=ON"};
  }
  for (const Image& image : images()) {
    LOCKSTEP_TRY(std::unique_ptr<cu::Module> module, cu::Module::load(context, image.bytes));
    for (const KernelRow& row : kernel_rows()) {
      if (row.image != image.name) continue;
      LOCKSTEP_TRY(cu::Kernel kernel, module->find(row.name, row.parameter_bytes, row.shared_bytes));
      set->kernels_.emplace(row.name, std::move(kernel));
    }
    set->modules_.push_back(std::move(module));
  }
  return set;
}

const cu::Kernel& KernelSet::kernel(std::string_view name) const {
  const auto found = kernels_.find(name);
  LOCKSTEP_CHECK(found != kernels_.end(), name);
  return found->second;
}

}  // namespace lockstep::cuda
