#include "runtime/backends/cpu/experts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/runtime/backends/cpu/experts_fixture.h"

namespace lockstep::cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// One rank, leaves of every kind and odd sizes; the last has leaves longer than a slab of 512 steps.
struct Case {
  ExpertShape shape;
  ExpertCut cut;
};
const std::vector<Case> kCases = {
    {{.rows = 1, .hidden = 1, .columns = 1, .experts = 1, .chosen = 1}, {{{0, 1}}, 1, false}},
    {{.rows = 9, .hidden = 33, .columns = 40, .experts = 4, .chosen = 2}, {{{0, 5}}, 8, false}},
    {{.rows = 7, .hidden = 70, .columns = 33, .experts = 5, .chosen = 3}, {{{0, 7}}, 5, false}},
    {{.rows = 20, .hidden = 48, .columns = 31, .experts = 11, .chosen = 4}, {{{0, 11}}, 1, true}},
    {{.rows = 3, .hidden = 20, .columns = 1300, .experts = 3, .chosen = 1}, {{{0, 3}}, 1, true}},
};

class Experts : public OnEveryMachine {
 protected:
  ExpertFixture make(const Case& c, bool has_bias = false) const {
    return {kernels(), dtype(), c.shape, c.cut, {}, has_bias};
  }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, Experts, every_isa_and_dtype(), name_of_isa_and_dtype);

/// Element (row, column) by a plain loop in double precision, and the sum of the terms' magnitudes.
struct Exact {
  double value = 0;
  double size = 0;
};
Exact exact_of(const ExpertFixture& f, int64_t row, int64_t column) {
  const ExpertShape& shape = f.shape;
  Exact exact;
  for (int64_t e = 0; e < shape.experts; ++e) {
    const double route = f.routes[row * shape.experts + e];
    if (route == 0) continue;
    if (f.has_bias) exact.value += route * f.down_bias[e * shape.hidden + column];
    for (int64_t c = 0; c < shape.columns; ++c) {
      const int64_t at = e * shape.columns + c;
      double gate = f.has_bias ? f.gate_bias[at] : 0.0, up = f.has_bias ? f.up_bias[at] : 0.0;
      for (int64_t k = 0; k < shape.hidden; ++k) {
        gate += double{f.x[row * shape.hidden + k]} * f.gate[at * shape.hidden + k];
        up += double{f.x[row * shape.hidden + k]} * f.up[at * shape.hidden + k];
      }
      const double inner = gate / (1 + std::exp(-gate)) * up;
      const double term = route * f.down[(e * shape.hidden + column) * shape.columns + c] * inner;
      exact.value += term;
      exact.size += std::abs(term);
    }
  }
  return exact;
}

/// Compares all elements of `experts` with the plain loop.
void expect_exact(const ExpertFixture& experts) {
  const ExpertShape& shape = experts.shape;
  const std::vector<float> found = experts.run();
  // Each inner value is rounded to the type; sums in float32 add a part of that.
  const double rounding = experts.dtype == DType::kFloat32 ? 4e-6 : std::ldexp(1.0, -8);
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t column = 0; column < shape.hidden; ++column) {
      const Exact exact = exact_of(experts, row, column);
      ASSERT_NEAR(found[row * shape.hidden + column], exact.value, rounding * exact.size + 1e-6)
          << shape.columns << " columns, row " << row << ", column " << column;
    }
  }
}

TEST_P(Experts, AgreeWithAPlainLoop) {
  for (const Case& c : kCases) {
    for (const bool has_bias : {false, true}) expect_exact(make(c, has_bias));
  }
}

TEST_P(Experts, MultiplyWeightsInCodesAsDecoded) {
  for (const Case& c : kCases) {
    for (const char* format : {"e2m1g16.e8m0", "q4g32.f16", "e4m3g128"}) {
      ExpertFixture experts = make(c, /*has_bias=*/true);
      experts.use_codes(format_from(format));
      expect_exact(experts);
    }
  }
}

TEST_P(Experts, GiveARowOfCodesTheSameBitsWhateverTheOtherRowsAndRanks) {
  for (const Case& c : kCases) {
    for (const bool has_int8_rows : {false, true}) {
      ExpertFixture experts = make(c, /*has_bias=*/true);
      experts.use_codes(format_from("q4g16.f16"));
      experts.has_int8_rows = has_int8_rows;
      const std::vector<float> together = experts.sum(2);
      for (int64_t row = 0; row < c.shape.rows; ++row) {
        const auto begin = together.begin() + row * c.shape.hidden;
        EXPECT_TRUE(same_bits(experts.with_rows(row, row + 1).sum(), {begin, begin + c.shape.hidden})) << "row " << row;
      }
      const int64_t leaves = c.cut.split.leaves();
      const auto three = experts.with_cut({{{0, leaves / 3, leaves / 2, leaves}}, c.cut.block, c.cut.by_expert});
      EXPECT_TRUE(same_bits(three.sum(), together));
    }
  }
}

TEST_P(Experts, GiveARowTheSameBitsWhateverTheOtherRows) {
  for (const Case& c : kCases) {
    const ExpertFixture experts = make(c, /*has_bias=*/true);
    const std::vector<float> together = experts.run();
    for (int64_t row = 0; row < c.shape.rows; ++row) {
      const auto begin = together.begin() + row * c.shape.hidden;
      EXPECT_TRUE(same_bits(experts.with_rows(row, row + 1).run(), {begin, begin + c.shape.hidden})) << "row " << row;
    }
  }
}

TEST_P(Experts, GiveTheSameBitsWhateverTheWorkers) {
  for (const Case& c : kCases) {
    const ExpertFixture experts = make(c);
    const std::vector<float> alone = experts.run();
    for (int workers : {2, 3, 7}) EXPECT_TRUE(same_bits(experts.run(workers), alone)) << workers;
  }
}

TEST_P(Experts, SumToTheSameBitsAtEveryDegree) {
  for (const Case& c : kCases) {
    const ExpertFixture experts = make(c, /*has_bias=*/true);
    const std::vector<float> alone = experts.run();
    const int64_t leaves = c.cut.split.leaves();
    for (int64_t cut = 0; cut <= leaves; ++cut) {
      const auto two = experts.with_cut({{{0, cut, leaves}}, c.cut.block, c.cut.by_expert});
      EXPECT_TRUE(same_bits(two.sum(2), alone)) << "cut at " << cut << " of " << leaves;
    }
    const auto three = experts.with_cut({{{0, leaves / 3, leaves / 2, leaves}}, c.cut.block, c.cut.by_expert});
    EXPECT_TRUE(same_bits(three.sum(), alone));
  }
}

TEST_P(Experts, DoNotReadTheWeightsThatNoRowChose) {
  for (const Case& c : {kCases[1], kCases[3]}) {
    ExpertFixture experts = make(c).with_rows(0, 1);
    const std::vector<float> before = experts.run();
    for (int64_t e = 0; e < c.shape.experts; ++e) {
      if (experts.routes[e] != 0) continue;
      const int64_t size = c.shape.columns * c.shape.hidden;
      for (auto* weight : {&experts.gate, &experts.up, &experts.down}) {
        std::fill_n(weight->begin() + e * size, size, kNan);
      }
    }
    EXPECT_TRUE(same_bits(experts.run(), before));
  }
}

TEST_P(Experts, IgnoreWhatPaddingRowsChoose) {
  ExpertFixture experts = make(kCases[1]);
  const std::vector<float> before = experts.run();
  const int64_t hidden = experts.shape.hidden;
  std::fill_n(experts.x.begin() + 4 * hidden, hidden, kNan);
  std::fill_n(experts.routes.begin() + 4 * experts.shape.experts, experts.shape.experts, kNan);
  experts.slot[4] = -1;
  const std::vector<float> found = experts.run();
  for (int64_t i = 0; i < static_cast<int64_t>(found.size()); ++i) {
    EXPECT_EQ(found[i], i / hidden == 4 ? 0.0f : before[i]) << i;
  }
}

TEST_P(Experts, KeepRoutesOfNanInsideTheLists) {
  ExpertFixture experts = make(kCases[3]);
  std::fill(experts.routes.begin(), experts.routes.end(), kNan);
  EXPECT_TRUE(std::isnan(experts.run()[0]));
}

TEST_P(Experts, KeepARowOfNanFromTheExpertsOfItsNeighbours) {
  // All routes of a row that could not choose are NaN: it takes no more entries than any other row.
  for (const Case& c : {kCases[1], kCases[3]}) {
    ExpertFixture experts = make(c);
    const std::vector<float> before = experts.run();
    const int64_t hidden = c.shape.hidden;
    std::fill_n(experts.x.begin(), hidden, kNan);
    std::fill_n(experts.routes.begin(), c.shape.experts, kNan);
    const std::vector<float> found = experts.run();
    for (int64_t i = 0; i < static_cast<int64_t>(found.size()); ++i) {
      if (i % (c.shape.rows * hidden) < hidden) {
        EXPECT_TRUE(std::isnan(found[i])) << i;
      } else {
        EXPECT_EQ(found[i], before[i]) << i;
      }
    }
  }
}

TEST_P(Experts, GiveZerosWhereNothingIsChosen) {
  ExpertFixture experts = make(kCases[1], /*has_bias=*/true);
  std::fill(experts.routes.begin(), experts.routes.end(), 0.0f);
  EXPECT_EQ(experts.run(3), std::vector<float>(experts.x.size(), 0.0f));
}

}  // namespace
}  // namespace lockstep::cpu
