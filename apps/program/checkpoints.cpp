// Looks at the names of manifests, NUMBER-stepSTEP.manifest.json, and at work.txt.
#include "apps/program/checkpoints.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

using namespace troupe;

namespace {

const char* const kWorkFile = "work.txt";

// The steps of the whole checkpoints in a folder.
std::vector<int64_t> steps_in(const std::filesystem::path& folder) {
  std::vector<int64_t> out;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    const size_t at = name.find("-step");
    if (name.ends_with(".manifest.json") && at != name.npos)
      out.push_back(std::strtoll(name.c_str() + at + 5, nullptr, 10));
  }
  return out;
}

}  // namespace

bool has_checkpoint(const std::filesystem::path& folder) { return !steps_in(folder).empty(); }

void remove_checkpoints(const std::filesystem::path& folder, const std::string& label) {
  const std::vector<int64_t> steps = steps_in(folder);
  std::filesystem::remove_all(folder);
  if (steps.empty()) return;
  std::printf("%s: begins anew; %lld steps of an earlier training were removed from %s\n",
              label.c_str(), static_cast<long long>(*std::max_element(steps.begin(), steps.end())),
              folder.c_str());
}

void require_work(const OutFolder& out, const std::string& work) {
  std::ifstream in(out / kWorkFile);
  std::string there;
  if (!std::getline(in, there) || there == work) return;
  throw Error(Errc::bad_configuration, "the checkpoints in ", out.path().string(),
              " are of: ", there, "; this run is of: ", work,
              "; give another --out, or leave out --resume to begin anew");
}

void remove_all_checkpoints(const OutFolder& out) {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(out.path()))
    if (entry.is_directory() && entry.path().filename().string().starts_with("checkpoint"))
      folders.push_back(entry.path());
  for (const auto& folder : folders) remove_checkpoints(folder, folder.filename().string());
}

void begin_work(const OutFolder& out, const std::string& work) {
  remove_all_checkpoints(out);
  std::ofstream file(out / kWorkFile);
  file << work << "\n";
  if (!file.flush()) throw Error(Errc::io, "cannot write ", (out / kWorkFile).string());
}
