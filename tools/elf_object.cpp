#include "tools/elf_object.h"

#include <elf.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace tegula::tools {
namespace {

constexpr std::uint64_t kAlignment = 64;
enum SectionIndex : std::uint16_t {
  kNone,
  kBytes,
  kSymbols,
  kNames,
  kSectionNames,
  kStack,
  kCount
};

#ifdef __aarch64__
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
constexpr Elf64_Half kMachine = EM_X86_64;
#endif

template <class T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Elf64_Ehdr elf_header(std::uint64_t sections_at) {
  Elf64_Ehdr h{};
  std::memcpy(h.e_ident, ELFMAG, SELFMAG);
  h.e_ident[EI_CLASS] = ELFCLASS64;
  h.e_ident[EI_DATA] = ELFDATA2LSB;
  h.e_ident[EI_VERSION] = EV_CURRENT;
  h.e_type = ET_REL;
  h.e_machine = kMachine;
  h.e_version = EV_CURRENT;
  h.e_ehsize = sizeof(Elf64_Ehdr);
  h.e_shentsize = sizeof(Elf64_Shdr);
  h.e_shnum = kCount;
  h.e_shstrndx = kSectionNames;
  h.e_shoff = sections_at;
  return h;
}

}  // namespace

std::string elf_object(const std::string& name, std::string_view bytes) {
  const std::string names = std::string(1, '\0') + name + '\0';
  constexpr std::string_view kTitles(
      "\0.rodata.tegula\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack\0", 59);
  std::array<Elf64_Sym, 2> symbols{};
  symbols[1].st_name = 1;
  symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  symbols[1].st_shndx = kBytes;
  symbols[1].st_size = bytes.size();

  std::array<Elf64_Shdr, kCount> sections{};
  std::string body(kAlignment, '\0');  // space for the header
  const auto add = [&](SectionIndex i, std::string_view title, Elf64_Word type,
                       std::string_view content, std::uint64_t alignment) {
    body.resize((body.size() + alignment - 1) / alignment * alignment);
    sections[i].sh_name = static_cast<Elf64_Word>(kTitles.find(title));
    sections[i].sh_type = type;
    sections[i].sh_offset = body.size();
    sections[i].sh_size = content.size();
    sections[i].sh_addralign = alignment;
    body += content;
  };
  add(kBytes, ".rodata.tegula", SHT_PROGBITS, bytes, kAlignment);
  sections[kBytes].sh_flags = SHF_ALLOC;
  add(kSymbols, ".symtab", SHT_SYMTAB,
      {reinterpret_cast<const char*>(symbols.data()), sizeof symbols}, 8);
  sections[kSymbols].sh_entsize = sizeof(Elf64_Sym);
  sections[kSymbols].sh_link = kNames;
  sections[kSymbols].sh_info = 1;  // index of the first global symbol
  add(kNames, ".strtab", SHT_STRTAB, names, 1);
  add(kSectionNames, ".shstrtab", SHT_STRTAB, kTitles, 1);
  add(kStack, ".note.GNU-stack", SHT_PROGBITS, {}, 1);

  body.resize((body.size() + 7) / 8 * 8);
  const Elf64_Ehdr header = elf_header(body.size());
  std::memcpy(body.data(), &header, sizeof header);
  for (const Elf64_Shdr& s : sections) put(body, s);
  return body;
}

}  // namespace tegula::tools
