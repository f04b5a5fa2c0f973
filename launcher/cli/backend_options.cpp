#include "launcher/cli/backend_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "engine/drivers.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {
namespace {

using device::OptionKind;
using device::OptionRow;

std::string flag_of(std::string_view name) { return fmt::format("--{}", name); }

CLI::Option* add_list(CLI::App& app, const OptionRow& row, device::OptionValues& values) {
  const auto take = [&values, name = std::string(row.name)](const std::vector<std::string>& given) {
    values[name] = fmt::format("{}", fmt::join(given, "\n"));
  };
  return app.add_option_function<std::vector<std::string>>(flag_of(row.name), take, std::string(row.help))
      ->allow_extra_args(false);
}

/// The option of a row, without its exclusions.
CLI::Option* add_row(CLI::App& app, const OptionRow& row, device::OptionValues& values) {
  const std::string help(row.help);
  const auto take = [&values, name = std::string(row.name)](const std::string& given) { values[name] = given; };
  if (row.kind == OptionKind::kFlag) {
    return app.add_flag_callback(
        flag_of(row.name), [take] { take("true"); }, help);
  }
  CLI::Option* option = row.kind == OptionKind::kList
                            ? add_list(app, row, values)
                            : app.add_option_function<std::string>(flag_of(row.name), take, help);
  if (row.kind == OptionKind::kNumber) option->check(CLI::Range(row.least, row.most));
  if (row.kind == OptionKind::kInteger) {
    option->check(CLI::Range(static_cast<int64_t>(row.least), static_cast<int64_t>(row.most)));
  }
  if (!row.choices.empty()) {
    const std::vector<std::string_view> choices = device::words_of(row.choices);
    option->check(CLI::IsMember(std::vector<std::string>(choices.begin(), choices.end())));
  }
  if (!row.otherwise.empty()) option->default_str(std::string(row.otherwise));
  return option->type_name(std::string(row.value_name));
}

/// In `plan` an option that names a device has no default: without it no device limits the plan.
void describe_for_plans(CLI::Option& option) {
  option.default_str("");
  option.description(option.get_description() +
                     "; degrees that they do not have are refused, the budget is their memory");
}

/// The rows of all backends, each once.
std::vector<OptionRow> rows_of(device::OptionUse use) {
  std::vector<OptionRow> rows;
  for (const device::BackendDriver* driver : engine::drivers()) {
    for (const OptionRow& row : driver->options()) {
      const bool is_there = std::ranges::find(rows, row.name, &OptionRow::name) != rows.end();
      if (belongs_to(row.use, use) && !is_there) rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace

BuiltBackends built_backends() {
  BuiltBackends backends;
  for (const device::BackendDriver* driver : engine::drivers()) {
    (driver->available().has_value() ? backends.present : backends.missing).push_back(driver->name());
  }
  return backends;
}

std::vector<std::string> backends_with(device::OptionUse use) {
  std::vector<std::string> names;
  for (const device::BackendDriver* driver : engine::drivers()) {
    const auto is_of_use = [use](const OptionRow& row) { return belongs_to(row.use, use); };
    if (std::ranges::any_of(driver->options(), is_of_use)) names.emplace_back(driver->name());
  }
  return names;
}

void add_backend_options(CLI::App& app, device::OptionUse use, device::OptionValues& values) {
  const std::vector<OptionRow> rows = rows_of(use);
  std::string_view section;
  for (const OptionRow& row : rows) {
    if (std::exchange(section, row.section) != row.section) begin_section(app, std::string(row.section));
    CLI::Option* option = add_row(app, row, values);
    if (use == device::OptionUse::kPlanning) describe_for_plans(*option);
  }
  for (const OptionRow& row : rows) {
    for (const std::string_view other : device::words_of(row.excludes)) {
      app.get_option(flag_of(row.name))->excludes(app.get_option(flag_of(other)));
    }
  }
}

device::OptionValues own_options(std::string_view backend, const device::OptionValues& values) {
  for (const device::BackendDriver* driver : engine::drivers()) {
    if (driver->name() == backend) return device::own_options(*driver, values);
  }
  return {};
}

bool takes_devices(std::string_view backend) {
  return std::ranges::any_of(engine::drivers(), [&](const device::BackendDriver* driver) {
    return driver->name() == backend && !driver->signs().variable.empty();
  });
}

}  // namespace lockstep::launcher
