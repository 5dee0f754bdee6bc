// SecretFile: the file of the secret that `actor-node up` draws for its cluster. Nodes and PROGRAM
// read it, by TROUPE_SECRET_FILE; no other user can.
//
// Owner: up().
#pragma once

#include <filesystem>
#include <string>

class SecretFile {
 public:
  // Draws a secret and writes it to `file`; an old file of that name is removed. Throws: Error(io);
  // Error(bad_configuration) where the file system cannot keep it from other users.
  explicit SecretFile(std::filesystem::path file);
  ~SecretFile();  // removes the file
  SecretFile(const SecretFile&) = delete;

  const std::filesystem::path& path() const { return file_; }
  // Writes it again if it is gone. Returns an error in words, or nothing.
  std::string keep() const;

 private:
  std::string write() const;

  const std::filesystem::path file_;
  std::string text_;
};
