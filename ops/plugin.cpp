// Implements troupe/custom_op.hpp. The description of a plugin is looked for in its file first, so
// that nothing of a library that does not fit is ever run.
#include "troupe/custom_op.hpp"

#include <dlfcn.h>
#include <elf.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace troupe {
namespace {

constexpr const char* kSymbol = "troupe_plugin";

std::string text_of(const std::string& path) {
  if (std::filesystem::is_directory(path))
    throw Error(Errc::io, "cannot read the plugin ", path,
                ": it is a folder; name the shared library in it");
  if (std::error_code gone;
      std::filesystem::exists(path, gone) && !std::filesystem::is_regular_file(path, gone))
    throw Error(Errc::io, "cannot read the plugin ", path,
                ": it is not a file; name a shared library");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) text.assign(std::istreambuf_iterator<char>(in), {});
  if (!in.good() && !in.eof()) text.clear();
  if (text.empty())
    throw Error(Errc::io, "cannot read the plugin ", path, ": ",
                errno ? std::strerror(errno) : "it is empty", "; check the path that was given");
  return text;
}

// Throws: Error(bad_data) if there is none in the file.
PluginDescription description_in(const std::string& text, const std::string& path) {
  const auto mark = detail::plugin_mark();
  const size_t at = text.find(std::string(mark.data(), mark.size()));
  PluginDescription out;
  if (at == text.npos || text.size() - at < sizeof out)
    throw Error(Errc::bad_data, path,
                " is no plugin of Troupe; a plugin is a shared library with one "
                "TROUPE_PLUGIN(function) of troupe/custom_op.hpp");
  std::memcpy(&out, text.data() + at, sizeof out);
  return out;
}

void check(const PluginDescription& found, const std::string& path) {
  if (found.abi != kPluginAbi)
    throw Error(Errc::bad_configuration, "plugin ", path, " has ABI version ", found.abi,
                ", this program has ", kPluginAbi,
                "; build the plugin with the headers of the Troupe that the program is of");
  if (found.layout != detail::plugin_layout())
    throw Error(Errc::bad_configuration, "plugin ", path,
                " was built with other headers of Troupe, or a compiler of another ABI, than this "
                "program; build both with the same ones");
}

// The loader maps what the program headers name without a look at the file's length, and dies of
// SIGBUS where the file ends before; it refuses all else of an ELF file that is wrong by itself.
// Throws: Error(bad_data).
void check_whole(const std::string& text, const std::string& path) {
  const auto refuse = [&](uint64_t needed) {
    throw Error(Errc::bad_data, "plugin ", path, " is cut short: it has ", text.size(),
                " bytes, and says of itself that it has ", needed, "; build or copy it again");
  };
  Elf64_Ehdr file;
  if (text.size() < sizeof file || text.compare(0, SELFMAG, ELFMAG) != 0) return;
  std::memcpy(&file, text.data(), sizeof file);
  if (file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_phentsize != sizeof(Elf64_Phdr)) return;
  const auto within = [&](uint64_t at, uint64_t bytes) {
    if (at > text.size() || bytes > text.size() - at)
      refuse(at > UINT64_MAX - bytes ? UINT64_MAX : at + bytes);
  };
  within(file.e_phoff, uint64_t{file.e_phnum} * sizeof(Elf64_Phdr));
  for (size_t p = 0; p < file.e_phnum; ++p) {
    Elf64_Phdr part;
    std::memcpy(&part, text.data() + file.e_phoff + p * sizeof part, sizeof part);
    if (part.p_type == PT_LOAD) within(part.p_offset, part.p_filesz);
  }
}

// Closed when it dies, unless it is kept.
class Library {
 public:
  explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_) return;
    const char* why = dlerror();
    throw Error(Errc::bad_configuration, "plugin ", path,
                " does not load: ", why ? why : "unknown reason",
                "; a symbol that is missing belongs to another version of Troupe, to a library "
                "that the plugin must link, or the program does not export its own "
                "(troupe_enable_plugins() in CMake)");
  }
  ~Library() {
    if (handle_) dlclose(handle_);
  }
  Library(const Library&) = delete;
  const void* find(const char* symbol) const { return dlsym(handle_, symbol); }
  void keep() { handle_ = nullptr; }

 private:
  void* handle_;
};

// Exceptions of the plugin become a text here, as long as its code is loaded.
std::string refusal_of(const PluginDescription& plugin, Registry& ops) {
  try {
    plugin.add_ops(ops);
    return {};
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "something that is not a std::exception was thrown";
  }
}

}  // namespace

Plugin load_plugin(Registry& registry, const std::string& path) {
  if (path.empty())
    throw Error(Errc::invalid_argument,
                "the path of a plugin is empty; name a shared library, as in ./cube.so");
  Plugin out;
  out.path = std::filesystem::absolute(path).lexically_normal().string();
  const std::string text = text_of(out.path);
  check(description_in(text, out.path), out.path);
  check_whole(text, out.path);
  Library library(out.path);
  const auto* plugin = static_cast<const PluginDescription*>(library.find(kSymbol));
  if (!plugin || plugin->mark != detail::plugin_mark() || !plugin->add_ops)
    throw Error(Errc::bad_data, out.path, " does not export ", kSymbol,
                "; put TROUPE_PLUGIN(function) at namespace scope in one of its files");
  check(*plugin, out.path);
  Registry added;
  if (const std::string why = refusal_of(*plugin, added); !why.empty())
    throw Error(Errc::bad_configuration, "plugin ", out.path, " could not add its ops: ", why);
  for (const Op* op : added.all())
    if (registry.find(op->name))
      throw Error(Errc::bad_configuration, "plugin ", out.path, " adds an op \"", op->name,
                  "\", but there is already one of this name; give it another, or leave out what "
                  "was loaded before");
  for (const SourceFunction* function : added.functions())
    if (registry.find_function(function->name))
      throw Error(Errc::bad_configuration, "plugin ", out.path, " adds a source function \"",
                  function->name, "\", but there is already one of this name; give it another");
  for (const SourceFunction* function : added.functions()) registry.add(*function);
  for (const Op* op : added.all()) {
    out.ops.push_back(op->name);
    registry.add(*op);
  }
  library.keep();
  return out;
}

std::shared_ptr<const Registry> ops_with(const std::vector<Op>& own,
                                         const std::vector<SourceFunction>& functions) {
  auto registry = std::make_shared<Registry>();
  for (const Op* op : builtin_ops()->all()) registry->add(*op);
  for (const Op& op : own) registry->add(op);
  for (const SourceFunction& function : functions) registry->add(function);
  return registry;
}

std::shared_ptr<const Registry> ops_with_plugins(const std::vector<std::string>& paths) {
  if (paths.empty()) return builtin_ops();
  auto registry = std::make_shared<Registry>();
  for (const Op* op : builtin_ops()->all()) registry->add(*op);
  for (const std::string& path : paths) load_plugin(*registry, path);
  return registry;
}

}  // namespace troupe
