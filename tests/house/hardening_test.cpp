// The programs of the build are hardened, as their files say.
#include <doctest/doctest.h>

#include <string>

#include "tests/house/command.hpp"
#include "tests/support/paths.hpp"

namespace troupe {
namespace {

// The output of readelf for a program, or a cut of it for a test.
struct Program {
  std::string headers, symbols;  // of the file, of its parts and of its dynamic section
};

Program read_program(const std::string& path) {
  return {output_of("readelf -W -h -l -d '" + path + "'"),
          output_of("readelf -W --dyn-syms '" + path + "'")};
}

// A build without optimization has no checked functions. The programs have the flags of this file.
#ifdef _FORTIFY_SOURCE
constexpr bool kChecked = true;
#else
constexpr bool kChecked = false;
#endif

// The guards that a program lacks, in words.
std::string lacks(const Program& program, bool checked = true) {
  const auto has = [](const std::string& text, const char* word) {
    return text.find(word) != text.npos;
  };
  // Sanitizers stand in place of the stack protector and of libc's checked functions.
  const bool sanitized = has(program.symbols, "__asan_") || has(program.symbols, "__tsan_");
  std::string out;
  const auto want = [&](bool is_there, const char* name) {
    if (!is_there) out += std::string(out.empty() ? "" : ", ") + name;
  };
  want(has(program.headers, " PIE\n"), "PIE");  // of the flags in its dynamic section
  want(has(program.headers, "GNU_RELRO"), "RELRO");
  want(has(program.headers, "Flags: NOW"), "BIND_NOW");
  want(sanitized || has(program.symbols, "__stack_chk_fail"), "stack protector");
  want(!checked || sanitized || has(program.symbols, "_chk@"), "_FORTIFY_SOURCE");
  return out;
}

}  // namespace

// The others have the same flags, and may be of an earlier build.
TEST_CASE("a program is hardened") {
  CHECK(lacks(read_program(binary_dir() + "/actor-node"), kChecked) == "");
}

TEST_CASE("a program without a guard is named with it") {
  const std::string whole = "  Type: DYN\n  GNU_RELRO\n (FLAGS_1) Flags: NOW PIE\n";
  const std::string symbols = "UND __stack_chk_fail@GLIBC_2.4\nUND __memcpy_chk@GLIBC_2.3.4\n";
  CHECK(lacks({whole, symbols}) == "");
  CHECK(lacks({whole, ""}, false) == "stack protector");
  CHECK(lacks({"  Type: EXEC UNKNOWN\n", ""}) ==
        "PIE, RELRO, BIND_NOW, stack protector, _FORTIFY_SOURCE");
  CHECK(lacks({whole, "UND __stack_chk_fail@GLIBC_2.4\n__asan_init\n"}) == "");
}

}  // namespace troupe
