// libFuzzer's entry: `troupe_fuzz NAME [ARGS]` feeds one target. An exception that leaves a target
// ends the program, and libFuzzer keeps the input. `troupe_fuzz list` names the targets, and
// `troupe_fuzz seeds` writes the seeds of all into the corpus.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/targets.hpp"
#include "tests/support/paths.hpp"

namespace {

void write_seeds(const troupe::fuzz::Target& target) {
  const auto folder =
      std::filesystem::path(troupe::source_dir()) / "tests/fuzz/corpus" / target.name;
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::string& seed : target.seeds())
    std::ofstream(folder / ("seed-" + std::to_string(number++)), std::ios::binary) << seed;
}

const troupe::fuzz::Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static const std::vector<troupe::fuzz::Target> all = troupe::fuzz::all_targets();
  const std::string_view name = *argc > 1 ? (*argv)[1] : "";
  for (const auto& target : all)
    if (target.name == name) chosen = &target;
  if (!chosen) {
    for (const auto& target : all) {
      if (name == "seeds") write_seeds(target);
      std::puts(std::string(target.name).c_str());
    }
    std::exit(name == "list" || name == "seeds" ? 0 : 64);
  }
  for (int i = 1; i + 1 < *argc; ++i) (*argv)[i] = (*argv)[i + 1];
  --*argc;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  troupe::fuzz::run(*chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}
