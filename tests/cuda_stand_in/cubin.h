// A kernel image of a GPU: an ELF file with a section of code for each kernel.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace lockstep::cu {

inline bool is_cubin(const void* image) {
  constexpr Elf64_Half kCudaMachine = 190;  // EM_CUDA
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_machine == kCudaMachine;
}

/// Names of the kernels, which point into the image.
inline std::vector<std::string_view> kernel_names(const void* image) {
  constexpr std::string_view kCode = ".text.";
  const auto* bytes = static_cast<const char*>(image);
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes);
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes + header->e_shoff);
  const char* names = bytes + sections[header->e_shstrndx].sh_offset;
  std::vector<std::string_view> found;
  for (int i = 0; i < header->e_shnum; ++i) {
    const std::string_view name = names + sections[i].sh_name;
    if (name.substr(0, kCode.size()) == kCode) found.push_back(name.substr(kCode.size()));
  }
  return found;
}

}  // namespace lockstep::cu
