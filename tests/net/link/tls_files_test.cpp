// Folders of certificates that a process cannot use, that change while it runs, and that come to
// their end.
#include <sys/resource.h>

#include <fstream>

#include <doctest/doctest.h>
#include <spdlog/sinks/ostream_sink.h>

#include "net/link/tls.hpp"
#include "tests/support/certificates.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

// Collects log lines.
struct Log {
  std::ostringstream text;
  spdlog::logger to{"test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)};
  // The lines since the last call.
  std::string take() {
    std::string out = text.str();
    text.str("");
    return out;
  }
  bool took(const std::string& part) {
    const std::string all = take();
    CAPTURE(all);
    return all.find(part) != all.npos;
  }
};

}  // namespace

TEST_CASE("a process refuses a folder of certificates that it cannot use") {
  const Authority a("folders"), b("other-folders");
  const std::string folder = a.issue("/job:ps/task:0");
  const auto fault = [&](Errc code) { return fault_of(code, [&] { TlsFiles{folder}; }); };
  const auto replace = [&](const std::string& name, const std::string& from) {
    fs::rename(folder + "/" + name, folder + "/kept");
    if (!from.empty()) fs::copy_file(from, folder + "/" + name);
  };
  const auto restore = [&](const std::string& name) {
    fs::rename(folder + "/kept", folder + "/" + name);
  };
  const std::string other = b.issue("/job:ps/task:0");
  replace("key.pem", "");
  has(fault(Errc::io), "cannot read the private key");
  restore("key.pem");
  replace("key.pem", other + "/key.pem");
  has(fault(Errc::bad_configuration), "is not the key of");
  restore("key.pem");
  replace("ca.pem", other + "/ca.pem");
  has(fault(Errc::bad_configuration), "is signed by another authority");
  restore("ca.pem");
  replace("cert.pem", folder + "/key.pem");
  has(fault(Errc::bad_configuration), "has no certificate");
  restore("cert.pem");
  replace("cert.pem", a.folder() + "/ca.pem");
  replace("key.pem", "");
  fs::rename(folder + "/kept", folder + "/key.pem");
  CHECK(!fault(Errc::bad_configuration).empty());
  fs::copy_file(a.issue("/job:ps/task:1") + "/cert.pem", folder + "/cert.pem",
                fs::copy_options::overwrite_existing);
  std::ofstream(folder + "/cert.pem") << "-----BEGIN CERTIFICATE-----\nAAAA\n";
  has(fault(Errc::bad_configuration), "damaged certificate");
  fs::permissions(folder + "/key.pem", fs::perms(0640));
  std::ofstream(folder + "/cert.pem") << text_of(other + "/cert.pem");
  has(fault(Errc::bad_configuration), "chmod 600");
}

TEST_CASE("a process refuses a certificate of another name") {
  const Authority a("names");
  const TlsFiles files(a.issue("/job:worker/task:3"));
  CHECK_NOTHROW(files.check_name("test", "worker", 3));
  CHECK_NOTHROW(files.check_name("test", "worker", kAnyTask));
  const auto fault = [&](const char* cluster, const char* job, int task) {
    return fault_of(Errc::bad_configuration, [&] { files.check_name(cluster, job, task); });
  };
  has(fault("test", "worker", 4),
      "is that of /job:worker/task:3 of cluster \"test\", and "
      "this process is /job:worker/task:4 of cluster \"test\"");
  has(fault("test", "ps", 3), "/job:ps/task:3");
  has(fault("blue", "worker", 3), "cluster \"blue\"");
  // A program has another number each time.
  const std::string program = fault("test", "client", 17);
  has(program, "and this process is a program in cluster \"test\"; ");
  has(program, "certs issue makes one for programs, under a name of your own");
  CHECK(program.find("17") == program.npos);
}

TEST_CASE("files of certificates that change are used for new links, when they stand still") {
  const Authority a("rotation");
  const std::string folder = a.issue("/job:ps/task:0");
  TlsFiles files(folder);
  Log log;
  const auto first = files.current();
  files.look(log.to);
  CHECK(log.take().empty());
  issue_certificate({.authority = a.folder(), .name = "/job:ps/task:0", .renew = true});
  files.look(log.to);
  CHECK(files.current() == first);  // they may still be changing
  files.look(log.to);
  CHECK(files.current() != first);
  CHECK(log.took("certificates read again"));
  files.look(log.to);
  CHECK(log.take().empty());

  const auto second = files.current();
  const auto bad = [&](const std::string& words) {
    files.look(log.to);
    files.look(log.to);
    const std::string all = log.take();
    CAPTURE(all);
    CHECK(all.find("the old ones stay") != all.npos);
    CHECK(all.find(words) != all.npos);
    CHECK(files.current() == second);
    files.look(log.to);
    CHECK(log.take().empty());  // it is said once
  };
  // Other bytes of the same size and time.
  const std::string cert = folder + "/cert.pem", whole = text_of(cert);
  const auto time = fs::last_write_time(cert);
  std::ofstream(cert) << std::string(whole.size(), 'x');
  fs::last_write_time(cert, time);
  bad("has no certificate");
  std::ofstream(cert) << whole;
  fs::rename(folder + "/key.pem", folder + "/away");
  bad("cannot read the private key");
  fs::rename(folder + "/away", folder + "/key.pem");
  const std::string other = a.issue("/job:ps/task:1");
  for (const char* name : {"cert.pem", "key.pem"})
    fs::copy_file(other + "/" + name, folder + "/" + name, fs::copy_options::overwrite_existing);
  bad("it is that of /job:ps/task:1");
  std::ofstream(folder + "/cert.pem") << "";
  bad("has no certificate");
  const auto renew = [&] {
    issue_certificate({.authority = a.folder(), .name = "/job:ps/task:0", .renew = true});
  };
  CHECK_THROWS_WITH_AS(renew(), doctest::Contains("name the machines with --hosts"), Error);
  fs::remove(folder + "/cert.pem");
  renew();
  files.look(log.to);
  files.look(log.to);
  CHECK(log.took("certificates read again"));
  CHECK(files.current() != second);
}

TEST_CASE("certificates are read once files can be opened again") {
  const Authority a("no-files");
  const std::string folder = a.issue("/job:ps/task:0");
  TlsFiles files(folder);
  Log log;
  const auto first = files.current();
  issue_certificate({.authority = a.folder(), .name = "/job:ps/task:0", .renew = true});
  rlimit usual{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const rlimit none{0, usual.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  for (int i = 0; i < 3; ++i) files.look(log.to);
  setrlimit(RLIMIT_NOFILE, &usual);
  const std::string said = log.take();
  has(said, "the old ones stay");
  CHECK(said.find("the old ones stay") == said.rfind("the old ones stay"));
  CHECK(files.current() == first);
  files.look(log.to);
  CHECK(log.took("certificates read again"));
  CHECK(files.current() != first);
}

TEST_CASE("a certificate is warned about in its last 14 days, once a day") {
  const Authority a("end");
  for (const int days : {13, 15}) {
    const std::string folder = issue_certificate(
        {.authority = a.folder(), .name = "/job:ps/task:0", .days = days, .renew = true});
    TlsFiles files(folder);
    Log log;
    files.look(log.to);
    if (days == 13)
      CHECK(log.took("expires soon, issue another one: folder=" + folder + " expires=2"));
    files.look(log.to);
    CHECK(log.take().empty());
  }
}

TEST_CASE("the folder is that of TROUPE_TLS_DIR, if none is given") {
  const Authority a("variable");
  const std::string folder = a.issue("/job:ps/task:0");
  const auto read = [](const std::string& named) { return read_tls(named, "test", "ps", 0); };
  CHECK(read("") == nullptr);
  setenv(kTlsVariable, folder.c_str(), 1);
  CHECK(read("")->current()->name.task == 0);
  setenv(kTlsVariable, "", 1);
  CHECK_THROWS_WITH_AS(read(""), doctest::Contains("TROUPE_TLS_DIR is empty"), Error);
  CHECK(read(folder) != nullptr);
  unsetenv(kTlsVariable);
  CHECK_THROWS_WITH_AS(read_tls(folder, "test", "ps", 1), doctest::Contains("/job:ps/task:1"),
                       Error);
}

}  // namespace troupe
