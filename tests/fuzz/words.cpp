// Words of a person: addresses, a cluster spec, and the flags of a program.
#include "apps/flags.hpp"
#include "net/wire/address.hpp"
#include "tests/fuzz/targets.hpp"
#include "troupe/cluster.hpp"

namespace troupe::fuzz {
namespace {

void run_addresses(std::string_view bytes) {
  is_good_name(bytes);
  is_printable(bytes);
  is_loopback(bytes);
  is_wildcard(bytes);
  is_loopback_address(bytes);
  const HostPort where = parse_address(bytes);
  const HostPort again = parse_address(format_address(where.host, where.port));
  promise(again.host == where.host && again.port == where.port, "an address can be said again");
}

Seeds address_seeds() {
  return {"127.0.0.1:7000", "localhost:0", "[::1]:7000", "[fe80::1%eth0]:65535", "host.example:1"};
}

void run_cluster_spec(std::string_view bytes) {
  const ClusterSpec spec = parse_cluster_spec(std::string(bytes), "cluster.txt");
  const ClusterSpec again = parse_cluster_spec(to_string(spec), "again");
  promise(again.jobs == spec.jobs, "a spec can be said again");
  for (const auto& [job, addresses] : spec.jobs)
    for (size_t i = 0; i < addresses.size(); ++i)
      promise(spec.address(job, static_cast<int>(i)) == addresses[i], "a task has its address");
}

Seeds spec_seeds() {
  return {to_string(local_cluster_spec(2, 2, 7000)),
          "ps = 127.0.0.1:1\nworker/1 = [::1]:2\nworker/0 = [::1]:3 # comment\n"};
}

// One word a line.
void run_flags(std::string_view bytes) {
  struct {
    bool on = false;
    int number = 1;
    int64_t large = 1;
    double real = 0.5;
    std::string text = "none";
    std::optional<int> maybe;
    std::optional<double> maybe_real;
    std::vector<std::string> list;
    std::vector<double> reals;
  } to;
  std::vector<std::string> words;
  for (std::string_view rest = bytes; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    words.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (words.back().starts_with("-h") || words.back().starts_with("--h")) return;  // prints
  }
  Flags flags("fuzz", "fuzz: some flags");
  flags.add("on", &to.on, "a switch");
  flags.add("number", &to.number, "a number");
  flags.add("large", &to.large, "a large number");
  flags.add("real", &to.real, "a real number");
  flags.add("text", &to.text, "a text");
  flags.add("maybe", &to.maybe, "a number or none");
  flags.add("maybe-real", &to.maybe_real, "a real number or none");
  flags.add("list", &to.list, "texts");
  flags.add("reals", &to.reals, "real numbers");
  if (bytes.size() % 3 == 0) flags.take_words();
  if (bytes.size() % 3 == 1) flags.end_at_word();
  flags.parse(words);
}

Seeds flag_seeds() {
  return {"--on\n--number\n7\n--large=123456789012\n--real\n1e-3",
          "--text\na\n--maybe\n0\n--maybe-real\n0.25\n--list\na\n--list=b",
          "--reals\n1\n--reals\n2.5\nword\n--\nmore"};
}

}  // namespace

Target addresses_target() { return {"addresses", run_addresses, address_seeds}; }
Target cluster_spec_target() { return {"cluster_spec", run_cluster_spec, spec_seeds}; }
Target flags_target() { return {"flags", run_flags, flag_seeds}; }

}  // namespace troupe::fuzz
