#include "runtime/core/field_list.h"

#include <gtest/gtest.h>

#include <limits>

#include "runtime/core/dtype.h"
#include "runtime/core/ids.h"

namespace lockstep {
namespace inner {

enum class Tint { kCold, kWarm };

struct Shade {
  double red = 0.1;
  std::optional<int64_t> depth;
};
LOCKSTEP_FIELDS(Shade, red, depth);

struct Picture {
  std::string name = "sea";
  bool framed = false;
  Tint tint = Tint::kWarm;
  DType dtype = DType::kBFloat16;
  SlotId slot = SlotId(3);
  float weight = 0.1f;
  std::vector<int64_t> sizes = {4, 5};
  std::vector<double> factors;
  Shade sky;
  std::optional<Shade> ground;
  uint64_t seed = ~uint64_t{0};
};
LOCKSTEP_FIELDS(Picture, name, framed, tint, dtype, slot, weight, sizes, factors, sky, ground, seed);

}  // namespace inner

namespace {

using inner::Picture;
using inner::Shade;

TEST(FieldsToText, WritesALineAFieldWithTheNamesOfStructsInside) {
  EXPECT_EQ(fields_to_text(Picture()),
            "name sea\nframed false\ntint 1\ndtype bf16\nslot 3\nweight 0.1\nsizes [4,5]\nfactors []\n"
            "sky.red 0.1\nsky.depth none\nground none\nseed 18446744073709551615\n");
  EXPECT_EQ(fields_to_text(Picture{.ground = Shade{.red = 2, .depth = 7}}, "draft.").substr(0, 16),
            "draft.name sea\nd");
  EXPECT_NE(fields_to_text(Picture{.ground = Shade{.red = 2, .depth = 7}}).find("ground.red 2\nground.depth 7\n"),
            std::string::npos);
}

TEST(FieldsToText, TellsApartNumbersThatDifferInTheLastBit) {
  for (const double red : {0.1, 1e-300, 256.0, -0.0, 1.0 / 3}) {
    const double next = std::nextafter(red, 1e300);
    EXPECT_NE(fields_to_text(Shade{.red = red}), fields_to_text(Shade{.red = next})) << red;
  }
  EXPECT_NE(fields_to_text(Shade{.red = 0.0}), fields_to_text(Shade{.red = -0.0}));
  const float weight = 16777216.0f;
  EXPECT_NE(fields_to_text(Picture{.weight = weight}), fields_to_text(Picture{.weight = std::nextafter(weight, 0.0f)}));
}

TEST(ForEachField, FindsFieldsByTheirNamesAndLetsThemBeWritten) {
  Shade shade;
  std::vector<std::string_view> names;
  for_each_field(shade, [&names](std::string_view name, auto& field) {
    names.push_back(name);
    field = 9;
  });
  EXPECT_EQ(names, (std::vector<std::string_view>{"red", "depth"}));
  EXPECT_EQ(shade.red, 9.0);
  EXPECT_EQ(shade.depth, 9);
}

}  // namespace
}  // namespace lockstep
