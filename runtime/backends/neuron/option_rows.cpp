#include "runtime/backends/neuron/option_rows.h"

#include <array>

#include "runtime/cache/user_cache.h"

namespace lockstep::neuron {
namespace {

using enum device::OptionKind;
using enum device::OptionUse;

constexpr std::string_view kSection = "AWS Neuron (--backend neuron; docs/neuron.md)";
constexpr double kMostSeconds = 1e6;

constexpr std::array kCompilerRows = {
    device::OptionRow{.name = "neuron-target",
                      .value_name = "NAME",
                      .otherwise = "trn1",
                      .help = "Devices that are compiled for: trn1, trn2 or inf2",
                      .choices = "trn1|trn2|inf2",
                      .section = kSection,
                      .use = kPlanning},
    device::OptionRow{.name = "neuron-cc",
                      .value_name = "PROGRAM",
                      .otherwise = "neuronx-cc",
                      .help = "AWS's compiler: a path, or a name that PATH knows",
                      .section = kSection,
                      .kind = kPath,
                      .use = kCompiling},
    device::OptionRow{.name = "neuron-cc-flags-prefill",
                      .value_name = "FLAGS",
                      .help = "Added to the compiler's command line for prefill steps, as one word: \"-O1 --lnc=1\"",
                      .section = kSection,
                      .use = kCompiling},
    device::OptionRow{.name = "neuron-cc-flags-decode",
                      .value_name = "FLAGS",
                      .help = "The same for decode steps",
                      .section = kSection,
                      .use = kCompiling},
    device::OptionRow{.name = "neuron-compile-deadline-s",
                      .value_name = "S",
                      .otherwise = "7200",
                      .help = "Seconds that one compilation may take",
                      .section = kSection,
                      .kind = kNumber,
                      .use = kCompiling,
                      .least = 0.1,
                      .most = kMostSeconds},
};

constexpr std::array kRuntimeRows = {
    device::OptionRow{.name = "neuron-runtime",
                      .value_name = "LIBRARY",
                      .otherwise = "libnrt.so.1",
                      .help = "The Neuron runtime: a file, or a name that the system or /opt/aws/neuron/lib knows",
                      .section = kSection,
                      .kind = kPath},
    device::OptionRow{.name = "neuron-cores",
                      .value_name = "COUNT|LIST",
                      .help = "Cores of each host, one for each of its ranks: how many of the first ones, or which "
                              "(8-15, 2-2); default: the first ones, or what NEURON_RT_VISIBLE_CORES says",
                      .section = kSection},
    device::OptionRow{.name = "neuron-load-deadline-s",
                      .value_name = "S",
                      .otherwise = "600",
                      .help = "Seconds that starting the runtime, or loading one step on all ranks, may take",
                      .section = kSection,
                      .kind = kNumber,
                      .least = 0.1,
                      .most = kMostSeconds},
};

}  // namespace

std::span<const device::OptionRow> option_rows() {
  static const std::vector<device::OptionRow> kRows = [] {
    std::vector<device::OptionRow> rows(kCompilerRows.begin(), kCompilerRows.end());
    rows.insert(rows.end(), kRuntimeRows.begin(), kRuntimeRows.end());
    rows.insert(rows.end(), cache::option_rows().begin(), cache::option_rows().end());
    return rows;
  }();
  return kRows;
}

}  // namespace lockstep::neuron
