// Files in the shape of a NEFF, the Neuron compiler's output: a header of 1024 bytes, then a tar archive. The stand-in
// compiler writes them and the stand-in runtime reads them; they contain the HLO module itself and no code for a
// device.
//
//   header            sizes, versions, hash, name, feature bits (layout: "Work with NEFF files", AWS Neuron SDK)
//   sg00/def.json     compiler, target, flags
//   sg00/module.hlo.pb
//
// Two things distinguish such a file from a real one: its build version, and a feature bit that no compiler
// sets, so that a real runtime has to refuse it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::stand_in {

/// The description of a file of the stand-in, in its header and in def.json.
inline constexpr std::string_view kNeffMark = "lockstep stand-in: no program for a Neuron device";

inline constexpr size_t kNeffHeaderBytes = 1024;

struct Neff {
  std::string name;                // of the module; up to 255 bytes are kept
  std::string target;              // "trn1"
  std::vector<std::string> flags;  // the compiler's command line, as given
  uint32_t logical_cores = 1;      // physical cores that one logical core joins (--lnc)
  std::vector<std::byte> module;   // of an HloModuleProto

  friend bool operator==(const Neff&, const Neff&) = default;
};

/// The same contents give the same bytes.
std::vector<std::byte> write_neff(const Neff& neff);

/// Fails with `kUnsupported` when the header is not one of the stand-in's: another format or version, or a real
/// compiler's (NRT's status 10); with `kInvalidArgument` when the data is cut off or damaged (status 2).
Result<Neff> read_neff(std::span<const std::byte> bytes);

}  // namespace lockstep::stand_in
