#include "engine/group/build_id.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace lockstep::group {
namespace {

constexpr size_t padded(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

/// The id in a segment of notes; empty when there is none.
std::string id_in(std::span<const std::byte> notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes.data(), sizeof head);
    const size_t content = sizeof head + padded(head.n_namesz);
    if (content + head.n_descsz > notes.size()) return "";
    const bool is_gnu = head.n_namesz == sizeof ELF_NOTE_GNU &&
                        std::memcmp(notes.data() + sizeof head, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0;
    if (is_gnu && head.n_type == NT_GNU_BUILD_ID) {
      std::string text;
      for (const std::byte byte : notes.subspan(content, head.n_descsz)) {
        text += fmt::format("{:02x}", static_cast<unsigned>(byte));
      }
      return text;
    }
    notes = notes.subspan(std::min(notes.size(), content + padded(head.n_descsz)));
  }
  return "";
}

/// Called for the program first, then for its libraries; ends the walk after the program.
int look_at(dl_phdr_info* info, size_t, void* found) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* const begin = reinterpret_cast<const std::byte*>(info->dlpi_addr + segment.p_vaddr);
    if (std::string id = id_in({begin, segment.p_memsz}); !id.empty()) *static_cast<std::string*>(found) = id;
  }
  return 1;
}

}  // namespace

std::string build_id() {
  std::string id = "unknown";
  dl_iterate_phdr(look_at, &id);
  return id;
}

}  // namespace lockstep::group
