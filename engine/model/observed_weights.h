// A source of weights that calls a function after each read.
#pragma once

#include <functional>
#include <utility>

#include "shards/weights.h"

namespace lockstep::model {

class ObservedWeights final : public shards::WeightSource {
 public:
  /// Gets the elements or the codes that were read, which it may change. Thread-safe.
  using AfterRead = std::function<void(const std::string& tensor, std::span<std::byte> read)>;

  /// Borrows `inner`.
  ObservedWeights(const shards::WeightSource& inner, AfterRead after_read)
      : inner_(inner), after_read_(std::move(after_read)) {}

  Result<void> read(const std::string& tensor, const Shape& whole, std::span<const Range> ranges, DType dtype,
                    std::span<std::byte> dst) const override {
    LOCKSTEP_TRY_VOID(inner_.read(tensor, whole, ranges, dtype, dst));
    after_read_(tensor, dst);
    return ok();
  }
  std::optional<WeightFormat> format_of(const std::string& tensor) const override { return inner_.format_of(tensor); }
  Result<void> read_codes(const std::string& tensor, const Shape& whole, Range rows, Range columns,
                          CodedRows dst) const override {
    LOCKSTEP_TRY_VOID(inner_.read_codes(tensor, whole, rows, columns, dst));
    after_read_(tensor, std::as_writable_bytes(dst.codes));
    return ok();
  }
  int64_t rows_at_once(const std::string& tensor) const override { return inner_.rows_at_once(tensor); }
  int64_t place_of(const std::string& tensor) const override { return inner_.place_of(tensor); }
  void expect(const std::string& tensor, std::span<const Range> ranges) const override {
    inner_.expect(tensor, ranges);
  }

 private:
  const shards::WeightSource& inner_;
  const AfterRead after_read_;
};

}  // namespace lockstep::model
