// The authority and the certificates of a cluster: names, files, and the words for faults.
#include <sys/stat.h>

#include <fstream>

#include <doctest/doctest.h>

#include "net/certificates/certified_name.hpp"
#include "tests/support/certificates.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

int mode_of(const std::string& file) {
  struct stat is {};
  REQUIRE(::stat(file.c_str(), &is) == 0);
  return is.st_mode & 0777;
}

}  // namespace

TEST_CASE("the name of a certificate is a task, all tasks of a job, or a program") {
  const auto task = CertifiedName::parse("c", "/job:worker/task:3");
  CHECK(task.uri() == "troupe://c/job/worker/task/3");
  CHECK(task.covers("c", "worker", 3));
  CHECK(!task.covers("c", "worker", 4));
  CHECK(!task.covers("c", "ps", 3));
  CHECK(!task.covers("d", "worker", 3));
  const auto job = CertifiedName::parse("c", "/job:worker/*");
  CHECK(job.uri() == "troupe://c/job/worker/task/*");
  CHECK(job.covers("c", "worker", 4));
  CHECK(!job.covers("c", "ps", 4));
  const auto program = CertifiedName::parse("c", "digits");
  CHECK(program.uri() == "troupe://c/program/digits");
  CHECK(program.covers("c", "client", 123'456));
  CHECK(!program.covers("c", "worker", 0));
  for (const char* bad :
       {"", "/", "/job:worker", "/job:worker/task:", "/job:worker/task:-1", "/job:worker/task:3x",
        "/job:w w/*", "/job:/*", "a b", "/job:*/*", "/job:worker/task:99999999999"}) {
    CAPTURE(bad);
    has(fault_of(Errc::invalid_argument, [&] { CertifiedName::parse("c", bad); }),
        "/job:worker/task:3");
  }
}

TEST_CASE("an authority signs certificates, and nothing that is there is overwritten") {
  const Authority a("files", "blue");
  CHECK(mode_of(a.folder()) == 0700);
  CHECK(mode_of(a.folder() + "/ca.key") == 0600);
  const std::string key = text_of(a.folder() + "/ca.key");
  has(fault_of(Errc::bad_configuration, [&] { make_authority(a.folder(), "blue"); }),
      "is there already");
  CHECK(text_of(a.folder() + "/ca.key") == key);

  const std::string folder = a.issue("/job:worker/task:3", {"node3.lan", "10.0.0.3", "fd00::3"});
  CHECK(folder == a.folder() + "/worker-3");
  CHECK(mode_of(folder + "/key.pem") == 0600);
  const std::string words = describe_certificates(folder + "/cert.pem");
  CAPTURE(words);
  has(words, "/job:worker/task:3 of cluster \"blue\"");
  has(words, "node3.lan, 10.0.0.3, fd00::3");
  has(words, " UTC, 364 days left");
  has(describe_certificates(folder + "/ca.pem"), "the authority of cluster \"blue\"");

  const std::string before = text_of(folder + "/cert.pem");
  has(fault_of(Errc::bad_configuration, [&] { a.issue("/job:worker/task:3"); }),
      "is there already");
  CHECK(text_of(folder + "/cert.pem") == before);
  issue_certificate({.authority = a.folder(), .name = "/job:worker/task:3", .renew = true});
  CHECK(text_of(folder + "/cert.pem") != before);
  has(describe_certificates(folder + "/cert.pem"), "node3.lan, 10.0.0.3, fd00::3");
  const Authority next("next-files", "blue");
  const std::string both = text_of(folder + "/ca.pem") + text_of(next.folder() + "/ca.pem");
  std::ofstream(folder + "/ca.pem") << both;
  const auto renew = [&](const std::string& by, std::vector<std::string> hosts) {
    issue_certificate({.authority = by,
                       .name = "/job:worker/task:3",
                       .hosts = std::move(hosts),
                       .folder = folder,
                       .renew = true});
  };
  const std::string kept = text_of(folder + "/cert.pem");
  for (const char* other : {"worker-3", "/job:worker/task:2", "/job:worker/*"})
    has(fault_of(Errc::invalid_argument,
                 [&] {
                   issue_certificate(
                       {.authority = a.folder(), .name = other, .folder = folder, .renew = true});
                 }),
        "is of /job:worker/task:3");
  CHECK(text_of(folder + "/cert.pem") == kept);
  renew(next.folder(), {"node4.lan"});
  CHECK(text_of(folder + "/ca.pem") == both);
  has(describe_certificates(folder + "/cert.pem"), "machines   node4.lan\n");
  std::ofstream(folder + "/ca.pem") << text_of(next.folder() + "/ca.pem");
  renew(a.folder(), {});
  CHECK(text_of(folder + "/ca.pem") == text_of(a.folder() + "/ca.pem"));
  for (const auto& entry : fs::directory_iterator(folder))
    CHECK(entry.path().extension() == ".pem");
}

TEST_CASE("a certificate that cannot be made is refused with the reason") {
  const Authority a("refusals");
  const auto fault = [&](Errc code, CertificateRequest request) {
    request.authority = a.folder();
    return fault_of(code, [&] { issue_certificate(request); });
  };
  has(fault(Errc::invalid_argument, {.name = "worker 3"}), "no name for a certificate");
  has(fault(Errc::invalid_argument, {.name = ".."}), "no name for a certificate");
  has(fault(Errc::invalid_argument, {.name = "/job:ps/task:0", .hosts = {"a,DNS:b"}}),
      "is no machine");
  has(fault(Errc::invalid_argument, {.name = "/job:ps/task:0", .hosts = {"10.0.0.1:7000"}}),
      "is no machine");
  has(fault(Errc::invalid_argument, {.name = "/job:ps/task:0", .days = 0}), "1 to 36500 days");
  has(fault(Errc::invalid_argument, {.name = "/job:ps/task:0", .days = 4000}),
      "the authority expires before");
  CHECK(!fs::exists(a.folder() + "/ps-0"));
  has(fault_of(Errc::io,
               [&] {
                 issue_certificate({"/nowhere", "x"});
               }),
      "cannot read the authority /nowhere/ca.pem");
  fs::permissions(a.folder() + "/ca.key", fs::perms(0644));
  has(fault(Errc::bad_configuration, {.name = "x"}), "chmod 600");
  const Authority b("other-refusals");
  fs::copy_file(b.folder() + "/ca.key", a.folder() + "/ca.key",
                fs::copy_options::overwrite_existing);
  fs::permissions(a.folder() + "/ca.key", fs::perms(0600));
  has(fault(Errc::bad_configuration, {.name = "x"}), "is not the key of");
}

}  // namespace troupe
