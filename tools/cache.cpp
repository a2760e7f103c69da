// tegula cache: lists the disk cache, compares entries, and makes bundles.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "runtime/artefact_format.h"
#include "runtime/bundle.h"
#include "runtime/bundle_lookup.h"
#include "support/text.h"
#include "tools/cache_entries.h"
#include "tools/commands.h"

namespace tegula::tools {
namespace {

constexpr int kDamaged = 2;
constexpr std::size_t kShortId = 8;

/// Returns the artefact of an entry, or nullopt for a simulator kernel or an entry of another
/// version.
std::optional<runtime::Artefact> artefact_of(const CachedKernel& kernel) {
  try {
    return runtime::decode_artefact(kernel.entry);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void list() {
  runtime::KernelCache cache = open_cache();
  std::size_t bytes = 0;
  const std::vector<CachedKernel> all = all_kernels(cache);
  for (const CachedKernel& k : all) {
    const auto artefact = artefact_of(k);
    fmt::print("{}  {:<32} {:<8} {:<6} {:<6} {:>8} B  {:%F}\n", k.id.substr(0, kShortId),
               artefact ? artefact->name : "(of another version)", field_of(k.key, "target"),
               field_of(k.key, "device"), field_of(k.key, "back end"), k.file.bytes,
               fmt::gmtime(k.file.used));
    bytes += k.file.bytes;
  }
  fmt::print("{} kernels, {} bytes\n", all.size(), bytes);
}

/// Returns a field's value, or the number of lines of a long one.
std::string shortened(std::string_view value) {
  constexpr std::size_t kLine = 80;
  if (value.size() <= kLine && value.find('\n') == value.npos) return std::string(value);
  return fmt::format("{} lines", std::ranges::count(value, '\n'));
}

void show_entry(const std::string& prefix) {
  runtime::KernelCache cache = open_cache();
  const std::vector<CachedKernel> all = all_kernels(cache);
  const CachedKernel& k = kernel_of(all, prefix);
  fmt::print("{}\n", k.file.path.string());
  for (const auto& [name, value] : k.key.fields()) fmt::print("{}: {}\n", name, shortened(value));
  if (const auto a = artefact_of(k))
    fmt::print("kernel {}: {} threads, cluster of {}, {} bytes of machine code\nplan {}\n{}",
               a->name, a->threads, a->cluster, a->image.size(), a->schedule_text,
               runtime::assembler_text(a->report, a->shared_bytes, a->image.size()));
}

void why(const std::string& from, const std::string& to) {
  runtime::KernelCache cache = open_cache();
  const std::vector<CachedKernel> all = all_kernels(cache);
  const std::string fields = difference(kernel_of(all, from).key, kernel_of(all, to).key);
  fmt::print("{}", fields.empty() ? "both ids name the same entry\n" : fields);
}

int verify() {
  runtime::KernelCache cache = open_cache();
  std::vector<std::string> damaged;
  const std::size_t sound = all_kernels(cache, &damaged).size();
  for (const std::string& path : damaged) fmt::print("damaged: {}\n", path);
  fmt::print("{} valid, {} damaged\n", sound, damaged.size());
  return damaged.empty() ? 0 : kDamaged;
}

void collect(std::size_t max_bytes) {
  runtime::KernelCache cache = open_cache(max_bytes, false);
  fmt::print("{} entries removed\n", cache.sweep());
}

void export_to(const std::string& file, const std::vector<std::string>& prefixes) {
  runtime::KernelCache cache = open_cache();
  std::vector<runtime::BundledKernel> kernels;
  const std::vector<CachedKernel> all = all_kernels(cache);
  const auto is_chosen = [&](const CachedKernel& k) {
    const auto begins = [&](const std::string& prefix) { return k.id.starts_with(prefix); };
    return prefixes.empty() || std::ranges::any_of(prefixes, begins);
  };
  for (const std::string& prefix : prefixes) kernel_of(all, prefix);  // throws if there is none
  for (const CachedKernel& k : all)
    if (field_of(k.key, "device") == "cuda" && is_chosen(k))
      kernels.push_back({runtime::portable_key(k.key), k.entry});
  if (all.empty()) throw std::runtime_error("nothing to export: the cache is empty");
  if (kernels.empty())
    throw std::runtime_error(fmt::format("nothing to export: none of the {} has code for a GPU",
                                         prefixes.empty() ? "entries" : "entries given"));
  const std::string bytes = runtime::encode_bundle(kernels);
  std::ofstream out(file, std::ios::binary);
  out << bytes;
  if (!out.flush()) throw std::runtime_error("cannot write " + file);
  fmt::print("{} kernels, {} bytes: {}\n", runtime::Bundle(file).rows().size(), bytes.size(), file);
}

/// Copies a bundle to the folder in which the library looks for it, if all entries are valid.
void import_from(const std::string& file) {
  const runtime::Bundle bundle(file);
  for (const runtime::BundleRow& row : bundle.rows()) {
    auto canonical = runtime::entry_key(bundle.entry(row));
    const auto key = canonical ? runtime::CacheKey::parse(std::move(*canonical)) : std::nullopt;
    if (!key || key->hash() != row.key || !bundle.find(*key))
      throw std::runtime_error(
          fmt::format("{} is damaged: its entry {} cannot be read", file, row.key.hex()));
  }
  const std::filesystem::path folder = runtime::bundle_folder();
  if (folder.empty()) throw std::runtime_error("there is no folder for bundles: set HOME");
  std::filesystem::create_directories(folder);
  // The name is a content hash, so that a second import changes nothing. Rename the complete file,
  // so that no reader sees a partial one.
  const std::filesystem::path to = folder / (hash128(read_file(file)).hex() + ".tgb");
  std::filesystem::path part = to;
  part += ".part";
  std::filesystem::copy_file(file, part, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::permissions(part, std::filesystem::perms::owner_read);
  std::filesystem::rename(part, to);
  fmt::print("{} kernels: {}\n", bundle.rows().size(), to.string());
}

struct CacheArgs {
  std::string from, to, file;
  std::vector<std::string> keys;
  std::size_t max_bytes = runtime::CacheOptions::kMaxBytes;
};

}  // namespace

void add_cache(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("cache", "Compiled kernels on disk, and bundles of them");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n  tegula cache ls\n  tegula cache why 3f2a 91c0\n"
      "  tegula cache export -o model.tgb && TEGULA_BUNDLES=model.tgb TEGULA_JIT=deny ./program");
  const auto args = std::make_shared<CacheArgs>();
  command->add_subcommand("ls", "List the kernels")->callback(list);
  CLI::App* shown = command->add_subcommand("show", "Describe an entry and what it depends on");
  shown->add_option("KEY", args->from, "First digits of its id")->required();
  shown->callback([args] { show_entry(args->from); });
  CLI::App* compared = command->add_subcommand("why", "Show the differences of two entries' keys");
  compared->add_option("FROM", args->from, "First digits of an id")->required();
  compared->add_option("TO", args->to, "First digits of the other id")->required();
  compared->callback([args] { why(args->from, args->to); });
  command->add_subcommand("verify", "Read every entry; the exit code is 2 if one is damaged")
      ->callback([&exit_code] { exit_code = verify(); });
  CLI::App* collected = command->add_subcommand("gc", "Remove the least recently used kernels");
  collected->add_option("--max-bytes", args->max_bytes, "Maximum size of the cache")
      ->capture_default_str();
  collected->callback([args] { collect(args->max_bytes); });
  CLI::App* exported = command->add_subcommand("export", "Write GPU kernels to a bundle");
  exported->add_option("-o,--output", args->file, "The bundle (.tgb)")->required();
  exported->add_option("KEY", args->keys, "First digits of ids; default: all");
  exported->callback([args] { export_to(args->file, args->keys); });
  CLI::App* imported = command->add_subcommand(
      "import", "Copy a bundle to the folder where the library looks for bundles");
  imported->add_option("FILE", args->file, "The bundle")->required();
  imported->callback([args] { import_from(args->file); });
}

}  // namespace tegula::tools
