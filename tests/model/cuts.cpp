#include "tests/model/cuts.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace lockstep::model {
namespace {

using Pair = std::tuple<size_t, int, size_t, int>;  // factor and choice, twice; the lower factor first
constexpr int kOpen = -1;

Pair pair_of(size_t i, int a, size_t j, int b) { return i < j ? Pair{i, a, j, b} : Pair{j, b, i, a}; }

std::set<Pair> all_pairs(const std::vector<int>& sizes) {
  std::set<Pair> pairs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (size_t j = i + 1; j < sizes.size(); ++j) {
      for (int a = 0; a < sizes[i]; ++a) {
        for (int b = 0; b < sizes[j]; ++b) pairs.insert({i, a, j, b});
      }
    }
  }
  return pairs;
}

/// The choice of factor `i` that covers the most missing pairs, given the earlier choices; ties alternate.
int best_choice(const std::vector<int>& row, size_t i, int choices, const std::set<Pair>& missing, size_t turn) {
  int best = 0;
  int64_t most = -1;
  for (int k = 0; k < choices; ++k) {
    const int choice = static_cast<int>((static_cast<size_t>(k) + turn) % static_cast<size_t>(choices));
    int64_t met = 0;
    for (size_t j = 0; j < row.size(); ++j) {
      if (j != i && row[j] != kOpen) met += static_cast<int64_t>(missing.count(pair_of(i, choice, j, row[j])));
    }
    if (met > most) {
      most = met;
      best = choice;
    }
  }
  return best;
}

}  // namespace

std::vector<std::vector<int>> covering_rows(const std::vector<int>& sizes) {
  std::vector<std::vector<int>> rows;
  std::set<Pair> missing = all_pairs(sizes);
  while (!missing.empty()) {
    const auto [first, a, second, b] = *missing.begin();
    std::vector<int> row(sizes.size(), kOpen);
    row[first] = a;
    row[second] = b;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (row[i] == kOpen) row[i] = best_choice(row, i, sizes[i], missing, rows.size());
    }
    for (size_t i = 0; i < row.size(); ++i) {
      for (size_t j = i + 1; j < row.size(); ++j) missing.erase({i, row[i], j, row[j]});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::vector<int>> all_rows(const std::vector<int>& sizes) {
  std::vector<std::vector<int>> rows = {{}};
  for (const int size : sizes) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& row : rows) {
      for (int choice = 0; choice < size; ++choice) {
        longer.push_back(row);
        longer.back().push_back(choice);
      }
    }
    rows = std::move(longer);
  }
  return rows;
}

}  // namespace lockstep::model
