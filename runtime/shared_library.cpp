#include "runtime/shared_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <algorithm>

#include "support/env.h"

namespace tegula::runtime {

std::vector<std::string> glob_files(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return files;
}

namespace {
/// Returns the numbers in a path, so that "13.0" sorts above "9.2", unlike in text order.
std::vector<int> version_digits(const std::string& path) {
  std::vector<int> digits;
  int value = -1;
  for (char c : path) {
    if (c >= '0' && c <= '9') {
      value = std::max(value, 0) * 10 + (c - '0');
    } else if (value >= 0) {
      digits.push_back(value);
      value = -1;
    }
  }
  if (value >= 0) digits.push_back(value);
  return digits;
}
}  // namespace

std::vector<std::string> toolkit_folders(std::string_view sub) {
  std::vector<std::string> roots;
  if (!env().cuda_home.empty()) roots.push_back(env().cuda_home.string());
  roots.emplace_back("/usr/local/cuda");
  std::vector<std::string> versioned = glob_files("/usr/local/cuda-*");
  std::sort(versioned.begin(), versioned.end(),
            [](const auto& a, const auto& b) { return version_digits(a) > version_digits(b); });
  roots.insert(roots.end(), versioned.begin(), versioned.end());
  for (std::string& root : roots) root.append("/").append(sub);
  return roots;
}

SharedLibrary SharedLibrary::open(const std::vector<std::string>& candidates) {
  SharedLibrary library;
  for (const std::string& candidate : candidates) {
    library.handle_ = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle_ != nullptr) {
      link_map* map = nullptr;
      const bool known = ::dlinfo(library.handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr;
      library.path_ = known && map->l_name[0] != 0 ? map->l_name : candidate;
      return library;
    }
    const char* reason = ::dlerror();
    library.failures_ += "  " + std::string(reason != nullptr ? reason : candidate.c_str()) + "\n";
  }
  return library;
}

std::filesystem::path file_of(const void* code) {
  Dl_info info{};
  link_map* map = nullptr;
  const bool known = ::dladdr1(code, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  if (!known || map == nullptr || map->l_name[0] == 0) return "/proc/self/exe";
  return map->l_name;
}

void* SharedLibrary::symbol(const char* name) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
}

}  // namespace tegula::runtime
