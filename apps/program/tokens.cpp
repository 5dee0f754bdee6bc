// Names and lines of a vocabulary.
#include "apps/program/tokens.hpp"

#include <cinttypes>
#include <cstdio>

using namespace troupe;

std::string fingerprint_of(const Vocabulary& vocabulary) {
  char digits[20];
  std::snprintf(digits, sizeof digits, "%" PRIx64, vocabulary.fingerprint());
  return digits;
}

std::string token_file(const OutFolder& out, const std::string& name,
                       const Vocabulary& vocabulary) {
  return (out / detail::concat(name, "-", fingerprint_of(vocabulary), ".txt")).string();
}

std::string work_of(const Vocabulary& vocabulary) {
  return detail::concat("a vocabulary of ", vocabulary.size(), " with the fingerprint ",
                        fingerprint_of(vocabulary));
}
