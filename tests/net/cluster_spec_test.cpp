// Cluster specs: accepted texts, and every mistake with its line.
#include "troupe/cluster.hpp"

#include <limits>

#include "net/wire/address.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {

TEST_CASE("a spec is read, with comments, IPv6 and tasks one by one, and printed back") {
  const ClusterSpec spec = parse_cluster_spec(
      "# a cluster\n"
      "ps = 10.0.0.1:7000, host-b:7001  # two shards\r\n"
      "\n"
      "worker/1 = [fd00::2]:7000\n"
      "worker/0 = [fd00::1]:7000\n",
      "cluster.txt");
  CHECK(spec.tasks() == std::vector<std::string>{"/job:ps/task:0", "/job:ps/task:1",
                                                 "/job:worker/task:0", "/job:worker/task:1"});
  CHECK(spec.addresses() == std::vector<std::string>{"10.0.0.1:7000", "host-b:7001",
                                                     "[fd00::1]:7000", "[fd00::2]:7000"});
  CHECK(spec.address("ps", 1) == "host-b:7001");
  CHECK(spec.origin == "cluster.txt");
  CHECK(parse_cluster_spec(to_string(spec), "again").jobs == spec.jobs);
  CHECK_THROWS_WITH_AS((void)spec.address("ps", 2),
                       doctest::Contains("/job:ps/task:0, /job:ps/task:1"), Error);
}

TEST_CASE("every mistake in a spec is named with file and line") {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
      {"ps = a:1\nworker = b:1, a:1\n",
       "f:2: /job:worker/task:1 has the address a:1, which /job:ps/task:0 has, too (line 1)"},
      {"worker/0 = a:1\nworker/2 = a:2\n", "f:2: task 1 of job worker is missing"},
      {"worker = a:1\nmaster = a:2\n", "f:2: \"master\" is no job"},
      {"workers = a:1\n", "did you mean \"worker\"?"},
      {"ps = a:1\n", "f: there is no worker"},
      {"", "f: there is no worker"},
      {"worker =\n", "f:1: job worker has no tasks"},
      {"worker = a:1,,a:2\n", "f:1: /job:worker/task:1 has no address"},
      {"worker = a\n", "f:1: /job:worker/task:0: \"a\" is no address: there is no port"},
      {"worker = a:70000\n", "the port is not a number from 0 to 65535"},
      {"worker = a:-1\n", "the port is not a number"},
      {"worker = a:1x\n", "the port is not a number"},
      {"worker = a:0\n", "port 0 cannot be dialled"},
      {"worker = fd00::1:7000\n", "an IPv6 address wants brackets"},
      {"worker = [fd00::1:7000\n", "the bracket is not closed"},
      {"worker = [host]:7000\n", "there is no IPv6 address"},
      {"worker = [::1]\n", "there is no port"},
      {"worker = :1\n", "there is no host"},
      {"worker = a b:1\n", "a host is letters"},
      {"worker a:1\n", "f:1: \"worker a:1\" has no '='"},
      {"worker = a:1\nworker = a:2\n", "f:2: job worker was given before, at line 1"},
      {"worker/0 = a:1\nworker/0 = a:2\n", "f:2: /job:worker/task:0 was given before, at line 1"},
      {"worker/x = a:1\n", "f:1: \"x\" is no task number"},
      {"worker/-1 = a:1\n", "is no task number"},
      {"worker/0 = a:1, a:2\n", "has more than one address"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    check_error(
        Errc::bad_configuration, [&] { parse_cluster_spec(c.text, "f"); }, c.message);
  }
  CHECK_THROWS_WITH_AS((void)read_cluster_spec("/nowhere/cluster.txt"),
                       doctest::Contains("No such file"), Error);
}

TEST_CASE("flags make a local cluster") {
  const ClusterSpec spec = local_cluster_spec(2, 1, 7000);
  CHECK(spec.addresses() ==
        std::vector<std::string>{"127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7002"});
  CHECK(spec.origin == "--ps 2 --workers 1");
  CHECK(local_cluster_spec(0, 2).addresses() ==
        std::vector<std::string>{"127.0.0.1:0", "127.0.0.1:0"});
  CHECK_THROWS_WITH_AS((void)local_cluster_spec(2, 0), doctest::Contains("at least one worker"),
                       Error);
  for (const int first : {-1, 65535, std::numeric_limits<int>::max()})
    CHECK_THROWS_WITH_AS((void)local_cluster_spec(1, 1, first),
                         doctest::Contains("the first port is from 1 to 65534, or 0 for any"),
                         Error);
  CHECK(local_cluster_spec(1, 1, 65534).addresses().back() == "127.0.0.1:65535");
}

TEST_CASE("addresses are written as they are read, and loopback is known") {
  for (const char* text : {"a:1", "127.0.0.1:65535", "[::1]:7000"}) {
    const HostPort where = parse_address(text);
    CHECK(format_address(where.host, where.port) == text);
  }
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) CHECK(is_loopback(host));
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example.org", "example.org"})
    CHECK(!is_loopback(host));
}

}  // namespace troupe
