#include "shards/cost/expert_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/core/ids.h"

namespace lockstep::cost {
namespace {

using partition::ExpertSplit;

/// Sets of `k` out of `n`.
double choose(int64_t n, int64_t k) {
  if (k < 0 || k > n) return 0.0;
  double sets = 1.0;
  for (int64_t i = 0; i < std::min(k, n - k); ++i) sets *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  return sets;
}

/// The number of sets of d experts with at most `most` on every rank, for every d: the product of the ranks'
/// polynomials Σ_i choose(held, i) x^i, cut after x^most.
std::vector<double> sets_with_at_most(int64_t most, const std::vector<int64_t>& held) {
  std::vector<double> sets = {1.0};
  for (const int64_t own : held) {
    const auto highest = static_cast<size_t>(std::min(own, most));
    std::vector<double> product(sets.size() + highest, 0.0);
    for (size_t i = 0; i <= highest; ++i) {
      const double own_sets = choose(own, static_cast<int64_t>(i));
      for (size_t d = 0; d < sets.size(); ++d) product[d + i] += sets[d] * own_sets;
    }
    sets = std::move(product);
  }
  return sets;
}

/// Bytes of `columns` columns of one expert: gate, up and down.
double expert_bytes(const checkpoint::ModelSpec& spec, int64_t columns, DType dtype) {
  const int64_t biases = spec.mlp_bias ? 2 * columns + spec.hidden_size : 0;
  return static_cast<double>(3 * spec.hidden_size * columns + biases) * static_cast<double>(size_of(dtype));
}

std::string_view name_of(ExpertSplit split) {
  return split == ExpertSplit::kColumns ? "columns of every expert" : "whole experts";
}

std::string line_of(ExpertSplit split, const std::optional<ExpertReads>& reads) {
  if (!reads) return fmt::format("  {:<24}{:>12}\n", name_of(split), "impossible");
  return fmt::format("  {:<24}{:>12}  of {:.2f} experts a layer\n", name_of(split),
                     to_string(Bytes(std::llround(reads->bytes))), reads->experts);
}

std::string verdict_on(const std::optional<ExpertReads>& columns, const std::optional<ExpertReads>& whole) {
  if (columns && whole && columns->bytes == whole->bytes) return "both read the same";
  const bool whole_is_cheaper = whole && (!columns || whole->bytes < columns->bytes);
  return fmt::format("{}: {}, with{} --expert-parallel", columns && whole ? "cheaper" : "possible",
                     name_of(whole_is_cheaper ? ExpertSplit::kWhole : ExpertSplit::kColumns),
                     whole_is_cheaper ? "" : "out");
}

}  // namespace

std::vector<double> distribution_of_chosen(int64_t experts, int64_t each, int64_t rows) {
  const auto count = static_cast<size_t>(experts), most = static_cast<size_t>(each);
  std::vector<std::vector<double>> adds(count + 1);  // [before][added]: what a row adds to those chosen before it
  for (int64_t before = 0; before <= experts; ++before) {
    for (int64_t added = 0; added <= each; ++added) {
      adds[static_cast<size_t>(before)].push_back(choose(experts - before, added) * choose(before, each - added) /
                                                  choose(experts, each));
    }
  }
  std::vector<double> chosen(count + 1, 0.0);
  chosen[0] = 1.0;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<double> next(count + 1, 0.0);
    for (size_t before = 0; before <= count; ++before) {
      for (size_t added = 0; added <= std::min(most, count - before); ++added) {
        next[before + added] += chosen[before] * adds[before][added];
      }
    }
    chosen = std::move(next);
  }
  return chosen;
}

double expected_busiest(const std::vector<int64_t>& held, int64_t each, int64_t rows) {
  int64_t experts = 0;
  for (const int64_t own : held) experts += own;
  const std::vector<double> chosen = distribution_of_chosen(experts, each, rows);
  double expected = 0.0;  // the sum of the probabilities that the busiest has more than 0, more than 1, …
  for (int64_t most = 0; most < std::ranges::max(held); ++most) {
    const std::vector<double> sets = sets_with_at_most(most, held);
    double at_most = 0.0;
    for (size_t d = 0; d < sets.size(); ++d) at_most += chosen[d] * sets[d] / choose(experts, static_cast<int64_t>(d));
    expected += 1.0 - at_most;
  }
  return expected;
}

ExpertReads expert_reads(const checkpoint::ModelSpec& spec, const partition::Partition& partition, DType dtype,
                         int64_t rows) {
  ExpertReads reads;
  int64_t widest = 0;
  std::vector<int64_t> held;
  for (const partition::RankPart& part : partition.parts) {
    widest = std::max(widest, part.mlp_columns.size());
    held.push_back(part.experts.size());
  }
  if (partition.expert_split == ExpertSplit::kColumns) held = {spec.experts};  // every rank reads a part of each
  reads.experts = expected_busiest(held, spec.experts_per_token, rows);
  reads.bytes = static_cast<double>(spec.expert_layers()) * reads.experts * expert_bytes(spec, widest, dtype);
  return reads;
}

std::string compare_expert_splits(const checkpoint::ModelSpec& spec, int ranks, DType dtype, int64_t rows) {
  if (partition::expert_split_of(spec, ExpertSplit::kColumns) == ExpertSplit::kWhole) {
    return "experts: whole on a rank, because the checkpoint rounds the rows that they multiply\n";
  }
  const auto reads_of = [&](ExpertSplit split) -> std::optional<ExpertReads> {
    const auto divided = partition::make_partition(spec, ranks, split);
    if (!divided.has_value()) return std::nullopt;
    return expert_reads(spec, divided.value(), dtype, rows);
  };
  const auto columns = reads_of(ExpertSplit::kColumns), whole = reads_of(ExpertSplit::kWhole);
  return fmt::format("experts that the busiest rank reads in a decode step, if {} row(s) choose {} of {} at random:\n",
                     rows, spec.experts_per_token, spec.experts) +
         line_of(ExpertSplit::kColumns, columns) + line_of(ExpertSplit::kWhole, whole) + "  " +
         verdict_on(columns, whole) + "\n";
}

}  // namespace lockstep::cost
