// The folder that a program writes into, and the files in it.
//
// Owner: the program. Thread: its main one.
#pragma once

#include <filesystem>
#include <string>

#include "apps/folder_claim.hpp"
#include "troupe/session.hpp"

// Made if it is not there, and this run's alone. If a signal ends the program, its last line says
// how to go on.
class OutFolder {
 public:
  // `resumes`: the program has --resume. Throws: Error(invalid_argument) while another run has the
  // folder; std::filesystem::filesystem_error.
  OutFolder(const std::string& folder, bool resumes);
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  const std::filesystem::path path_;  // absolute
  const FolderClaim claim_;
};

// Writes a file that nothing depends on. Returns where it is, for people; if it cannot be written,
// says so with `say`.
std::string write_extra(const std::filesystem::path& path, const std::string& text,
                        const troupe::LogSink& say);
