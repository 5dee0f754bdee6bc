// Writes beside the file, and renames.
#include "apps/program/write_aside.hpp"

#include <cerrno>
#include <fstream>

std::error_code write_aside(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path part = file.string() + ".part";
  std::error_code error, ignored;
  errno = 0;
  if (std::ofstream out(part, std::ios::binary); out << text && out.flush())
    std::filesystem::rename(part, file, error);
  else
    error.assign(errno ? errno : EIO, std::generic_category());
  if (error) std::filesystem::remove(part, ignored);
  return error;
}
