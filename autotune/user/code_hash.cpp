#include "autotune/user/code_hash.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "ir/text.h"
#include "support/hash.h"

namespace tegula::autotune {
namespace {

struct Section {
  std::string_view name, content;
  std::uint64_t bytes = 0;
};

template <class T>
bool read(std::string_view image, std::uint64_t at, T& out) {
  if (at > image.size() || image.size() - at < sizeof(T)) return false;
  std::memcpy(&out, image.data() + at, sizeof(T));
  return true;
}

std::string_view part(std::string_view image, std::uint64_t at, std::uint64_t bytes) {
  return at > image.size() || image.size() - at < bytes ? std::string_view()
                                                        : image.substr(at, bytes);
}

/// Returns the sections of an ELF file; empty if it is damaged.
std::vector<Section> sections_of(std::string_view image) {
  Elf64_Ehdr header;
  Elf64_Shdr names;
  if (!read(image, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  const auto at = [&](std::uint64_t i) { return header.e_shoff + i * sizeof(Elf64_Shdr); };
  if (!read(image, at(header.e_shstrndx), names)) return {};
  const std::string_view table = part(image, names.sh_offset, names.sh_size);
  std::vector<Section> out;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr s;
    if (!read(image, at(i), s) || s.sh_name >= table.size()) return {};
    const std::string_view name = table.substr(s.sh_name, table.find('\0', s.sh_name) - s.sh_name);
    const bool has_content = s.sh_type != SHT_NOBITS;
    out.push_back({name, has_content ? part(image, s.sh_offset, s.sh_size) : "", s.sh_size});
  }
  std::ranges::sort(out, {}, &Section::name);
  return out;
}

bool runs(std::string_view name) {
  for (const std::string_view prefix : {".text.", ".nv.info", ".nv.constant", ".nv.shared"})
    if (name.starts_with(prefix)) return true;
  return false;
}

}  // namespace

std::string code_hash(const runtime::CompiledKernel& kernel) {
  const runtime::Artefact& a = kernel.artefact();
  Hasher h;
  h.add(a.threads).add(a.cluster).add(a.shared_bytes).add(static_cast<int>(a.kind));
  const std::string_view image(a.image.data(), a.image.size());
  if (a.kind == runtime::ImageKind::none) {
    h.add(ir::print(kernel.device.kind == DeviceKind::cpu ? kernel.tile : kernel.simt(),
                    {.locations = false}));
    return h.digest().hex();
  }
  const std::vector<Section> sections =
      a.kind == runtime::ImageKind::cubin ? sections_of(image) : std::vector<Section>();
  if (sections.empty()) h.add(image);
  for (const Section& s : sections)
    if (runs(s.name)) h.add(s.name).add(s.content).add(s.bytes);
  return h.digest().hex();
}

}  // namespace tegula::autotune
