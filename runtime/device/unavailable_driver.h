// The driver of a missing backend.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/backend_driver.h"

namespace lockstep::device {

/// The error of a missing `backend`: its CMake option `cmake_option` is off.
Error missing_backend(std::string_view backend, std::string_view cmake_option);

/// Accepts the backend's options and fails everything else with one error.
class UnavailableDriver final : public BackendDriver {
 public:
  /// `rows` and `name` outlive it.
  UnavailableDriver(std::string_view name, std::span<const OptionRow> rows, DeviceSigns signs, Error why)
      : name_(name), rows_(rows), signs_(signs), why_(std::move(why)) {}

  std::string_view name() const override { return name_; }
  Result<void> available() const override { return why_; }
  std::span<const OptionRow> options() const override { return rows_; }
  Result<void> check_options(const OptionValues& values) const override { return check_values(name_, rows_, values); }
  std::string statement(const OptionValues&) const override { return {}; }
  Capabilities capabilities() const override { return {}; }
  DeviceSigns signs() const override { return signs_; }
  Result<DevicePlan> place(const RankSite&, const OptionValues&) const override { return why_; }
  Result<void> check(std::span<const StepGraph>, const RankSite&, const DevicePlan&,
                     const OptionValues&) const override {
    return why_;
  }
  Result<std::unique_ptr<Backend>> make(const RankSite&, const DevicePlan&, const OptionValues&) const override {
    return why_;
  }
  const AheadCompiler* compiler() const override { return nullptr; }
  const DeviceRules* rules() const override { return nullptr; }
  const GraphInspector* inspector() const override { return nullptr; }

 private:
  std::string_view name_;
  std::span<const OptionRow> rows_;
  DeviceSigns signs_;
  Error why_;
};

}  // namespace lockstep::device
