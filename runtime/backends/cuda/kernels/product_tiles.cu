// Products of many rows: a block computes 128 outputs of 64 or 128 rows, so it reads each weight once for all of them.
//
//   x ───────┐ copies that run ahead   ┌─► warps 0 … 3: outputs 0 … 63
//   weights ─┴─► shared memory, a stage ┴─► warps 4 … 7: outputs 64 … 127      a stage is 128 bytes of each row
//
// Every element has the sums of `product`: parts in order, folded along the tree. A thread owns the same elements in
// every part, so its open sums lie in registers and shared memory that it alone touches. In 16 bits four warps multiply
// together, with weights from registers and tokens from shared memory (wgmma.h).
#include "runtime/backends/cuda/kernels/head_products.h"
#include "runtime/backends/cuda/kernels/sums.h"
#include "runtime/backends/cuda/kernels/wgmma.h"
#include "runtime/backends/cuda/kernels/write_product.h"

namespace lockstep::cuda {
namespace {

constexpr int kChunks = 8;  // of 16 bytes, of a row in a stage: all banks
constexpr int kChunkBytes = 16;
constexpr int kStageSteps = kChunks * kChunkBytes / 2 / kStepColumns;  // of 16-bit elements
constexpr int kBroughtAhead = 32;                                      // steps

/// `open` has only as many levels as the parts need.
template <int kGroups>
struct TilesShared {
  TokenRows<kGroups * kTileRows> x[kTilesStages];
  Words weights[kTilesStages][kProductWarps][kStageSteps][kWarpLanes];  // fragments; not of f32
  Words open[kMostLevels][kGroups][kProductThreads];
};
/// product_wide's, without weights, which lie in registers: two blocks fit a multiprocessor.
template <>
struct TilesShared<kWideGroups> {
  TokenRows<kWideGroups * kTileRows> x[kWideStages];
  Words open[kMostLevels][kWideGroups][kProductThreads];
};

template <typename Rows, int kGroups>
class Tiles {
  using Element = typename Rows::Element;
  using Shared = TilesShared<kGroups>;
  static constexpr bool kIsWide = kGroups == kWideGroups;
  static constexpr int kStages = kIsWide ? kWideStages : kTilesStages;
  static constexpr bool kIsFloat = sizeof(Element) == 4;
  static constexpr int kRows = kGroups * kTileRows;
  static constexpr int kChunk = kChunkBytes / static_cast<int>(sizeof(Element));  // columns
  static constexpr int kSteps = kChunks * kChunk / kStepColumns;                  // of a stage

 public:
  LOCKSTEP_DEVICE Tiles(const ProductParameters& p, int block, Shared& shared)
      : p_(p), shared_(shared), rows_(used(p.rows)), lane_(thread_index() % 32) {
    const int tiles_of_rows = (p.rows.rows + kRows - 1) / kRows;  // side by side: they read the same weights
    first_row_ = block % tiles_of_rows * kRows;
    tile_ = block / tiles_of_rows * kProductWarps + thread_index() / 32;
    has_outputs_ = tile_ * kTileOutputs < p.outputs;
    groups_ = (rows_ - first_row_ + kTileRows - 1) / kTileRows;
    if (groups_ > kGroups) groups_ = kGroups;
  }

  LOCKSTEP_DEVICE void run() {
    if (groups_ <= 0) return;
    Stage coming = first_stage();
    Stage next = coming;
    for (int i = 0; i + 1 < kStages; ++i) fetch(coming, i);
    if constexpr (kIsWide) load_weights(next, weights_);
    int place = 0;
    for (int part = 0; part < p_.part_count; ++part) {
      const SumPart& of = p_.parts[part];
      for (int step = 0; step < of.steps; step += kSteps) {
        wait_copies<kStages - 2>();
        if constexpr (!kIsFloat) show_to_products();
        sync_block();  // all copies are complete, and no thread reads the place that is filled next
        add_stage(of, step, place, coming, next);
        place = (place + 1) % kStages;
      }
      end_part(of);
    }
    wait_copies<0>();
  }

 private:
  /// Up to kSteps steps of one part.
  struct Stage {
    int part;
    int step;
  };

  /// Passes parts without further steps.
  LOCKSTEP_DEVICE void settle(Stage& stage) const {
    while (stage.part < p_.part_count && stage.step >= p_.parts[stage.part].steps) {
      ++stage.part;
      stage.step = 0;
    }
  }
  LOCKSTEP_DEVICE Stage first_stage() const {
    Stage stage{0, 0};
    settle(stage);
    return stage;
  }
  LOCKSTEP_DEVICE void advance(Stage& stage) const {
    stage.step += kSteps;
    settle(stage);
  }

  /// Starts the copies of a stage, if there is one, and goes on to the next. A lane copies the weights that it reads.
  LOCKSTEP_DEVICE void fetch(Stage& stage, int place) {
    if (stage.part < p_.part_count) {
      const SumPart& part = p_.parts[stage.part];
      const int chunk = thread_index() % kChunks;
      const int first = part.first_column + stage.step * kStepColumns + chunk * kChunk;
      const int left = part.end_column - first;
      const int bytes = left <= 0 ? 0 : left < kChunk ? left * static_cast<int>(sizeof(Element)) : kChunkBytes;
      const Element* x = static_cast<const Element*>(p_.x) + (left > 0 ? first : 0);
      constexpr int kRowsAtOnce = kProductThreads / kChunks;
      const int rows = (groups_ + 1) / 2 * 2 * kTileRows;
      LOCKSTEP_NO_UNROLL
      for (int row = thread_index() / kChunks; row < rows; row += kRowsAtOnce) {
        const bool is_inside = first_row_ + row < rows_;
        copy_async_16(&shared_.x[place].chunk[row][chunk ^ row % 8],
                      is_inside ? x + (first_row_ + row) * p_.x_stride : x, is_inside ? bytes : 0);
      }
      if constexpr (!kIsFloat && !kIsWide) {
        const Words* words = reinterpret_cast<const Words*>(weights_of(part, stage.step)) + lane_;
        LOCKSTEP_UNROLL
        for (int step = 0; step < kSteps; ++step) {
          if (!has_outputs_ || stage.step + step >= part.steps) break;
          copy_async_16(&shared_.weights[place][thread_index() / kWarpLanes][step][lane_], words + step * kWarpLanes);
        }
      }
      advance(stage);
    }
    commit_copies();
  }

  /// The fragments of a step of the warp's outputs.
  LOCKSTEP_DEVICE const Element* weights_of(const SumPart& part, int step) const {
    return static_cast<const Element*>(p_.weights) +
           (static_cast<int64_t>(tile_) * p_.k_steps + part.first_step + step) * (kTileOutputs * kStepColumns);
  }

  /// Loads the fragments of a stage, zeros where it has none, and brings those of a later one closer.
  LOCKSTEP_DEVICE void load_weights(const Stage& stage, Words (&to)[kSteps]) const {
    const bool has_more = has_outputs_ && stage.part < p_.part_count;
    const SumPart& part = p_.parts[has_more ? stage.part : 0];
    const int steps = has_more ? part.steps - stage.step : 0;
    const int left = has_more ? p_.k_steps - part.first_step - stage.step : 0;  // of the tile
    const Words* words = reinterpret_cast<const Words*>(weights_of(part, has_more ? stage.step : 0)) + lane_;
    constexpr int kLineLanes = kBroughtBytes / sizeof(Words);
    LOCKSTEP_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      to[step] = Words{};
      if (step < steps) to[step] = load_once(words + step * kWarpLanes);
      if (step + kBroughtAhead < left && lane_ % kLineLanes == 0) {
        bring_closer(words + (step + kBroughtAhead) * kWarpLanes);
      }
    }
  }

  /// Adds a stage of a part, and starts the copies of a coming one.
  LOCKSTEP_DEVICE void add_stage(const SumPart& part, int first_step, int place, Stage& coming, Stage& next) {
    const int filled = (place + kStages - 1) % kStages;
    if constexpr (kIsFloat) {
      fetch(coming, filled);
      LOCKSTEP_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        if (has_outputs_ && first_step + step < part.steps) add_floats(part, first_step + step, step, place);
      }
    } else if constexpr (kIsWide) {
      Words later[kSteps];  // not weights_: the products read those until they have ended
      fetch(coming, filled);
      advance(next);
      multiply_stage(weights_, part.steps - first_step, place, [&] { load_weights(next, later); });
      LOCKSTEP_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        LOCKSTEP_UNROLL
        for (int i = 0; i < 4; ++i) weights_[step].word[i] = later[step].word[i] ^ zero_;
      }
    } else {
      Words weights[kSteps];
      LOCKSTEP_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        weights[step] = shared_.weights[place][thread_index() / kWarpLanes][step][lane_];
      }
      multiply_stage(weights, part.steps - first_step, place, [&] { fetch(coming, filled); });
    }
  }

  /// Adds up to kSteps steps of a stage; `meanwhile` runs beside the products.
  template <typename Meanwhile>
  LOCKSTEP_DEVICE void multiply_stage(const Words (&weights)[kSteps], int steps, int place, Meanwhile meanwhile) {
    if (steps >= kSteps) {
      hold_sums(sums_);
      begin_products();
      LOCKSTEP_UNROLL
      for (int step = 0; step < kSteps; ++step) multiply_tokens<Rows>(sums_, weights[step], shared_.x[place], step);
      meanwhile();
      end_products<0>();
      hold_sums(sums_);
      return;
    }
    meanwhile();
    LOCKSTEP_UNROLL
    for (int step = 0; step + 1 < kSteps; ++step) {
      if (step >= steps) break;
      hold_sums(sums_);
      begin_products();
      multiply_tokens<Rows>(sums_, weights[step], shared_.x[place], step);
      end_products<0>();
      hold_sums(sums_);
    }
  }

  /// A step of f32: a lane has one output and four rows of each group. Columns beyond the part's add nothing.
  LOCKSTEP_DEVICE void add_floats(const SumPart& part, int step, int step_of_stage, int place) {
    const int left = part.end_column - part.first_column - step * kStepColumns;
    const int first = lane_ / kTileOutputs * 4;
    const Element* from = weights_of(part, step) + lane_ % kTileOutputs;
    Element weights[kStepColumns];
    LOCKSTEP_UNROLL
    for (int column = 0; column < kStepColumns; ++column) weights[column] = from[column * kTileOutputs];
    LOCKSTEP_UNROLL
    for (int column = 0; column < kStepColumns; ++column) {
      if (column >= left) break;
      const int chunk = (step_of_stage * kStepColumns + column) / kChunk;
      LOCKSTEP_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        if (group >= groups_) break;
        LOCKSTEP_UNROLL
        for (int row = 0; row < 4; ++row) {
          const Words& x = shared_.x[place].chunk[group * kTileRows + first + row][chunk ^ (first + row)];
          sums_[group][row] = madd(weights[column], float_of_bits(x.word[column % kChunk]), sums_[group][row]);
        }
      }
    }
  }

  LOCKSTEP_DEVICE Words& open_sum(int level, int group) { return shared_.open[level][group][thread_index()]; }

  LOCKSTEP_DEVICE void keep(int level, const float (&sums)[kGroups][4]) {
    LOCKSTEP_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      Words words;
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) words.word[i] = bits_of(sums[group][i]);
      open_sum(level, group) = words;
    }
  }

  /// Joins the finished part with the open sums; writes it where it ends a root.
  LOCKSTEP_DEVICE void end_part(const SumPart& part) {
    if constexpr (!kIsWide) {
      if (part.merges == 0 && height_ > 0) keep(height_ - 1, top_);
    }
    for (int merge = 0; merge < part.merges; ++merge) {
      --height_;
      LOCKSTEP_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        const bool is_top = !kIsWide && merge == 0;
        Words older{};
        if (!is_top) older = open_sum(height_, group);
        LOCKSTEP_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float left = is_top ? top_[kIsWide ? 0 : group][i] : float_of_bits(older.word[i]);
          sums_[group][i] = plus(left, sums_[group][i]);
        }
      }
    }
    if constexpr (kIsWide) {
      keep(height_, sums_);
      if (part.root < 0) {
        ++height_;
      } else {  // nothing else is open
        LOCKSTEP_NO_UNROLL
        for (int group = 0; group < groups_; ++group) {
          const Words words = open_sum(height_, group);
          float sums[4];
          LOCKSTEP_UNROLL
          for (int i = 0; i < 4; ++i) sums[i] = float_of_bits(words.word[i]);
          write(part.root, group, sums);
        }
      }
    } else if (part.root >= 0) {
      LOCKSTEP_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        if (group < groups_) write(part.root, group, sums_[group]);
      }
    } else {
      ++height_;
      LOCKSTEP_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        LOCKSTEP_UNROLL
        for (int i = 0; i < 4; ++i) top_[group][i] = sums_[group][i];
      }
    }
    LOCKSTEP_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) sums_[group][i] = 0.0f;
    }
  }

  /// Writes the sums of a group.
  LOCKSTEP_DEVICE void write(int root, int group, const float (&sums)[4]) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int output = kIsFloat ? lane_ % kTileOutputs : lane_ / 4 + i / 2 * 8;
      const int row = kIsFloat ? lane_ / kTileOutputs * 4 + i : lane_ % 4 * 2 + i % 2;
      const int at = first_row_ + group * kTileRows + row;
      if (at < rows_) write_product<Rows>(p_, root, at, tile_ * kTileOutputs + output, sums[i]);
    }
  }

  const ProductParameters& p_;
  Shared& shared_;
  const int rows_;
  const int lane_;
  int first_row_;
  int tile_;
  bool has_outputs_;
  int groups_;  // that have rows
  int height_ = 0;
  float sums_[kGroups][4] = {};
  float top_[kIsWide ? 1 : kGroups][4] = {};  // the newest open sum; of product_wide it lies with the others
  Words weights_[kIsWide ? kSteps : 1] = {};  // of product_wide: the stage's
  // A zero that the compiler does not know: later weights ^ zero_ cannot be loaded into weights_ during products.
  const uint32_t zero_ = static_cast<uint32_t>(p_.rows.rows) >> 31;
};

/// Open sums that TilesShared has room for, with those in registers.
template <int kGroups>
constexpr int kMostOpen = kMostLevels + held_levels(kGroups);
static_assert(sizeof(TilesShared<kTilesGroups>) == product_tiles_bytes(kTilesGroups, kMostOpen<kTilesGroups>));
static_assert(sizeof(TilesShared<kWideGroups>) == product_tiles_bytes(kWideGroups, kMostOpen<kWideGroups>));

template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void product_tiles(const ProductParameters& p, int block) {
  using Shared = TilesShared<kGroups>;
  follow_previous();
  constexpr int kLevel = sizeof(Shared::open[0]);
  Shared& shared =
      shared_memory_of<Shared>(static_cast<int>(sizeof(Shared)) - (kMostOpen<kGroups> - p.levels) * kLevel);
  Tiles<Rows, kGroups>(p, block, shared).run();
}

template <typename Rows>
LOCKSTEP_DEVICE void product_heads_tiles(const ProductHeadsParameters& p) {
  product_tiles<Rows, kTilesGroups>(product_of_head<Rows>(p), block_of_head(p));
}

}  // namespace

LOCKSTEP_KERNEL_HELD(product_tiles_f32, ProductParameters, kProductThreads, 1) {
  product_tiles<F32Rows, kTilesGroups>(p, block_index());
}
LOCKSTEP_KERNEL_HELD(product_tiles_bf16, ProductParameters, kProductThreads, 1) {
  product_tiles<Bf16Rows, kTilesGroups>(p, block_index());
}
LOCKSTEP_KERNEL_HELD(product_tiles_f16, ProductParameters, kProductThreads, 1) {
  product_tiles<F16Rows, kTilesGroups>(p, block_index());
}
LOCKSTEP_KERNEL(product_wide_bf16, ProductParameters, kProductThreads) {
  product_tiles<Bf16Rows, kWideGroups>(p, block_index());
}
LOCKSTEP_KERNEL(product_wide_f16, ProductParameters, kProductThreads) {
  product_tiles<F16Rows, kWideGroups>(p, block_index());
}
LOCKSTEP_KERNEL_HELD(product_heads_tiles_f32, ProductHeadsParameters, kProductThreads, 1) {
  product_heads_tiles<F32Rows>(p);
}
LOCKSTEP_KERNEL_HELD(product_heads_tiles_bf16, ProductHeadsParameters, kProductThreads, 1) {
  product_heads_tiles<Bf16Rows>(p);
}
LOCKSTEP_KERNEL_HELD(product_heads_tiles_f16, ProductHeadsParameters, kProductThreads, 1) {
  product_heads_tiles<F16Rows>(p);
}

}  // namespace lockstep::cuda
