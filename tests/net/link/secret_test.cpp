// Proofs, and the files that a secret is read from.
#include "net/link/secret.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <doctest/doctest.h>

#include "net/link/net_thread.hpp"
#include "tests/support/hex.hpp"
#include "tests/support/temp_file.hpp"

namespace troupe {

TEST_CASE("a proof is HMAC-SHA256 over the label, a zero byte and the parts") {
  SystemRng rng;
  const Secret secret("key", rng);
  const std::string text = "jumps over the lazy dog";
  const std::string expected =
      from_hex("f791f37c705a328a1f9b6c71be658e5b48d5eb90fd336285810b57a5a71f8184");
  const auto whole = std::as_bytes(std::span(text));
  const Proof proof = secret.prove("The quick brown fox", {whole.first(5), whole.subspan(5)});
  const auto digest = std::as_bytes(std::span(expected));
  CHECK(std::equal(proof.begin(), proof.end(), digest.begin(), digest.end()));
  CHECK(Secret::same(proof, secret.prove("The quick brown fox", {whole})));
  CHECK(!Secret::same(proof, secret.prove("The quick brown fo", {whole})));
  CHECK(!Secret::same(proof, Secret("Key", rng).prove("The quick brown fox", {whole})));
  CHECK(secret.draw() != secret.draw());
}

TEST_CASE("a secret is a file of this user alone, without the white space at its end") {
  const std::string good = "0123456789abcdef";
  TempFile file("secret", good + " \r\n\n");
  const auto with_mode = [&](mode_t mode) {
    chmod(file.path().c_str(), mode);
    return read_secret(file.path());
  };
  CHECK(with_mode(0600) == good);
  CHECK(with_mode(0400) == good);
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0644})
    CHECK_THROWS_WITH_AS(with_mode(mode), doctest::Contains("chmod 600"), Error);
  const auto refuses = [](const std::string& text, Errc code, const std::string& words) {
    TempFile other("secret-bad", text);
    chmod(other.path().c_str(), 0600);
    try {
      read_secret(other.path());
      FAIL("it was taken: ", text.size(), " bytes");
    } catch (const Error& e) {
      CHECK(e.code() == code);
      CHECK(std::string(e.what()).find(words) != std::string::npos);
    }
  };
  refuses("", Errc::bad_configuration, "has 0 bytes");
  refuses("0123456789abcde\n", Errc::bad_configuration, "has 15 bytes");
  refuses(std::string(1025, 'x'), Errc::bad_configuration, "wants 16 to 1024");
  refuses(std::string(5000, 'x'), Errc::bad_configuration, "wants 16 to 1024");
  CHECK_THROWS_WITH_AS(read_secret("."), doctest::Contains("is not a file"), Error);
  CHECK_THROWS_WITH_AS(read_secret("no-such-secret"), doctest::Contains("No such file"), Error);
  if (geteuid() == 0) {  // only root can give a file away
    chmod(file.path().c_str(), 0600);
    REQUIRE(chown(file.path().c_str(), 65534, 65534) == 0);
    CHECK_THROWS_WITH_AS(read_secret(file.path()), doctest::Contains("another user"), Error);
  }
}

TEST_CASE("TROUPE_SECRET_FILE names the secret of a process that is given none") {
  TempFile file("secret-variable", "0123456789abcdef");
  chmod(file.path().c_str(), 0600);
  unsetenv(kSecretVariable);
  CHECK(read_secret("") == "");
  setenv(kSecretVariable, file.path().c_str(), 1);
  CHECK(read_secret("") == "0123456789abcdef");
  setenv(kSecretVariable, "", 1);
  CHECK_THROWS_WITH_AS(read_secret(""), doctest::Contains("is empty"), Error);
  unsetenv(kSecretVariable);
}

}  // namespace troupe
