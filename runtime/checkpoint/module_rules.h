// Rules that say, by the names of modules in the files, how matrices are quantised. Private to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/module_pattern.h"
#include "runtime/checkpoint/weight_formats.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// The tensors in which a file keeps a matrix [N, K] of b bits in groups of g columns, by the name of its module.
enum class CodedLayout : uint8_t {
  kGptq,    // qweight i32 [K · b / 32, N], qzeros i32 [K / g, N · b / 32] less 1, scales [K / g, N], g_idx i32 [K]
  kGptqV2,  // the same with zeros as they are
  kAwq,     // qweight i32 [K, N / 8], qzeros i32 [K / g, N / 8], scales [K / g, N]
  kPacked,  // weight_packed i32 [N, K · b / 32], weight_scale [N, K / g], weight_zero_point i32 [N · b / 32, K / g]
  kBytes,   // weight i8 or e4m3 [N, K], weight_scale [N, K / g] or one, weight_zero_point i8
  kBlocks,  // weight e4m3 [N, K], weight_scale_inv or weight_scale [N / rows, K / g]
  kNvfp4,   // weight_packed u8 [N, K / 2], weight_scale e4m3 [N, K / 16], divided by weight_global_scale [1]
  kNvfp4Product,  // weight u8 [N, K / 2], weight_scale e4m3 [N, K / 16], multiplied by weight_scale_2
  kMxfp4,         // weight_packed u8 [N, K / 2], weight_scale e8m0 [N, K / 32]
  kMxfp4Blocks,   // NAME_blocks u8 [experts, N, K / 32, 16], NAME_scales e8m0 [experts, N, K / 32]
};

/// How a matrix is quantised and stored.
struct QuantisedModule {
  CodedLayout layout = CodedLayout::kGptq;
  MatrixFormat format;
  int64_t block_rows = 1;  // kBlocks: rows that share their scales

  friend bool operator==(const QuantisedModule&, const QuantisedModule&) = default;
};

/// One rule. Names are those of the files without ".weight": "model.layers.0.mlp.down_proj".
struct ModuleRule {
  enum class Match : uint8_t {
    kName,      // the whole name
    kPattern,   // a regular expression, from the start of the name
    kPart,      // whole components of the name ("mlp.gate"), its end, or a regular expression for its first components
    kWildcard,  // "*" and "?" stand for any characters and one; the name or its first components
    kEvery,     // every module
  };

  Match match = Match::kName;
  std::string text = {};
  std::optional<QuantisedModule> module = std::nullopt;  // none: elements

  friend bool operator==(const ModuleRule&, const ModuleRule&) = default;
};

/// Compiled rules; the first one that matches decides.
class ModuleRules {
 public:
  /// `origin` names the config in messages. Fails with `kUnsupported` for a malformed expression or too many of them.
  static Result<ModuleRules> compile(std::span<const ModuleRule> rules, std::string_view origin);

  /// Rules that compare text with every name.
  int64_t patterns() const { return patterns_; }

  /// How the module with any of these `names` is quantised; none: it has elements.
  Result<std::optional<QuantisedModule>> find(std::span<const std::string> names) const;

 private:
  struct Compiled {
    ModuleRule rule;
    std::optional<ModulePattern> pattern = std::nullopt;
    std::set<std::string, std::less<>> names = {};  // of neighbouring rules for whole names with one result
  };
  static Result<bool> matches(const Compiled& compiled, std::string_view name);

  std::vector<Compiled> rules_;
  int64_t patterns_ = 0;
};

}  // namespace lockstep::checkpoint
