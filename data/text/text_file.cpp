// The function of text_file.hpp.
#include "data/text/text_file.hpp"

#include <filesystem>

#include "data/files/disk.hpp"

namespace troupe {

void write_text_file(const std::string& path, const std::string& text) {
  const std::filesystem::path at(path);
  AtomicFile file(real_disk(), at.has_parent_path() ? at.parent_path().string() : ".",
                  at.filename().string(), AtomicFile::IfThere::last_stays);
  file.write(text);
  file.commit();
}

}  // namespace troupe
