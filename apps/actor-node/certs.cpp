// actor-node certs: the authority and the certificates of a cluster whose links are encrypted.
#include <cstdio>
#include <iostream>

#include "apps/actor-node/verbs.hpp"
#include "apps/console_log.hpp"
#include "troupe/cluster.hpp"

using troupe::Errc;
using troupe::Error;

namespace {

constexpr const char* kSummary =
    "actor-node certs init DIR                     makes an authority in DIR\n"
    "actor-node certs issue DIR NAME               makes a certificate and its key, signed by it\n"
    "actor-node certs show FILE                    describes the certificates of a file\n\n"
    "NAME: /job:worker/task:3, /job:worker/* for all tasks of a job, or the name of a program,\n"
    "which joins a cluster as a client. A process takes the folder that issue prints as --tls or\n"
    "TROUPE_TLS_DIR. Keep DIR/ca.key: whoever has it joins the cluster.";

struct CertsOptions {
  std::string cluster = "troupe";
  std::vector<std::string> hosts;
  std::optional<int> days;
  std::optional<std::string> out;
  bool renew = false;
};

void add_certs(Flags& flags, CertsOptions& to) {
  flags.take_words();
  flags.add("cluster", &to.cluster, "init: name of the cluster");
  flags.add("hosts", &to.hosts,
            "issue: names and addresses of the machine, with commas; processes that dial another "
            "one refuse the certificate (default: any)");
  flags.add("days", &to.days, "days until it expires (default: 3650 of an authority, else 365)");
  flags.add("out", &to.out, "issue: folder to write (default: one in DIR, by NAME)");
  flags.add("renew", &to.renew,
            "issue: replace the certificate and key that are there; their machines stay, unless "
            "--hosts names others, and so does a ca.pem that holds the authority");
}

std::vector<std::string> split(const std::vector<std::string>& lists) {
  std::vector<std::string> out;
  for (const std::string& list : lists)
    for (size_t begin = 0; begin <= list.size();) {
      const size_t end = std::min(list.find(',', begin), list.size());
      out.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  return out;
}

const std::string& word(const Flags& flags, size_t at, size_t count, const char* form) {
  if (flags.words.size() != count || flags.words[at].empty())
    throw Error(Errc::invalid_argument, "write actor-node certs ", form);
  return flags.words[at];
}

int run(const Flags& flags, const CertsOptions& given) {
  const std::string verb = flags.words.empty() ? "" : flags.words[0];
  if (verb == "init") {
    const std::string& folder = word(flags, 1, 2, "init DIR [--cluster NAME] [--days N]");
    troupe::make_authority(folder, given.cluster, given.days.value_or(3650));
    std::printf("%s/ca.pem: the authority of cluster \"%s\". Keep %s/ca.key secret.\n",
                folder.c_str(), given.cluster.c_str(), folder.c_str());
  } else if (verb == "issue") {
    const char* const form = "issue DIR NAME [--hosts H,...] [--days N] [--out DIR] [--renew]";
    troupe::CertificateRequest request;
    request.authority = word(flags, 1, 3, form);
    request.name = word(flags, 2, 3, form);
    request.hosts = split(given.hosts);
    request.days = given.days.value_or(request.days);
    request.folder = given.out.value_or("");
    request.renew = given.renew;
    std::printf("%s\n", troupe::issue_certificate(request).c_str());
  } else if (verb == "show") {
    std::fputs(troupe::describe_certificates(word(flags, 1, 2, "show FILE")).c_str(), stdout);
  } else {
    throw Error(Errc::invalid_argument, "certs wants init, issue or show, got \"", verb, "\"");
  }
  return 0;
}

}  // namespace

int certs(const std::vector<std::string>& arguments) {
  CertsOptions given;
  Flags flags("actor-node certs", kSummary);
  add_certs(flags, given);
  if (!flags.parse(arguments)) return 0;
  return exit_code_of(console_voice("text", "actor-node certs"), [&] { return run(flags, given); });
}
