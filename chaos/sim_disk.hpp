// SimDisk: a Disk in memory that keeps apart what a crash would keep and what it may lose. Faults:
// a full disk, an error or a crash at the n-th call, torn writes, syncs that lie, files that nobody
// can read for a while.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/files/disk.hpp"
#include "troupe/error.hpp"

namespace troupe {

// The process is gone. Not an Error: nobody may handle it.
struct SimCrash {};

class SimDisk final : public Disk {
 public:
  // Every call counts, opening and reading excepted: they leave nothing behind.
  int64_t calls = 0;
  int64_t crash_at = -1;  // this call never returns; a write may be torn, others have not happened
  int64_t fail_at = -1;   // this call ends with Error(io)
  int64_t meanwhile_at = -1;
  std::function<void()> meanwhile;  // done by others before that call, once
  int64_t bytes_max = -1;           // all files together; a write beyond it is cut short and fails
  bool lie_on_sync = false;         // sync() keeps nothing
  bool says_full = false;           // free_bytes() is 0
  // The faults of the present caller's disk: no write keeps a byte; this call ends with Error(io).
  struct CallerFaults {
    std::function<bool()> is_full = [] { return false; }, fails = is_full;
  };
  CallerFaults caller;
  // The view that the present reader has of all folders: `empty` is a place where nothing is
  // mounted.
  enum class Folders { here, empty, refused };
  std::function<Folders()> folders = [] { return Folders::here; };

  // The disk that a restarted process finds: the names that were synced and some of the later
  // changes, each if `draw(2)` is 1 (a file system may write directories in any order); files with
  // what was synced and a part of the rest. `draw(n)` is uniform in [0, n).
  void crash(const std::function<uint64_t(uint64_t)>& draw) {
    for (const Change& c : pending_)
      if (draw(2) == 1) apply(durable_, c);
    pending_.clear();
    now_ = durable_;
    for (auto& [path, file] : now_) {
      const size_t lost = file->bytes.size() - file->synced;
      file->bytes.resize(file->synced + static_cast<size_t>(draw(lost + 1)));
      file->synced = file->bytes.size();
    }
    crash_at = fail_at = -1;
    crashed_ = false;
  }

  // The process that calls has died, and its stack is unwound; or another one calls.
  void set_caller_gone(bool gone) { crashed_ = gone; }

  // For tests that damage files.
  std::string& bytes(const std::string& path) { return find(path)->bytes; }
  bool has(const std::string& path) const { return now_.count(path) > 0; }
  // A file that is on the disk for good.
  void put(const std::string& path, const std::string& bytes) {
    durable_[path] = now_[path] = std::make_shared<File>(File{bytes, bytes.size()});
  }
  // The files of a folder, by name.
  std::map<std::string, std::string> files(const std::string& dir) const {
    std::map<std::string, std::string> out;
    for (const auto& [path, file] : now_)
      if (path.rfind(dir + "/", 0) == 0) out[path.substr(dir.size() + 1)] = file->bytes;
    return out;
  }

  void make_dirs(const std::string&) override { call("make directory"); }
  std::vector<std::string> list(const std::string& dir) override {
    std::vector<std::string> names;
    const Folders seen = folders();
    if (seen == Folders::refused)
      throw Error(Errc::io, "cannot list ", dir, ": ", std::strerror(EACCES));
    if (seen == Folders::empty) return names;
    for (const auto& [path, file] : now_)
      if (path.rfind(dir + "/", 0) == 0) names.push_back(path.substr(dir.size() + 1));
    return names;
  }
  std::unique_ptr<ReadFile> open(const std::string& path) override {
    const Folders seen = folders();
    if (seen != Folders::here)
      throw Error(Errc::io, "cannot open ", path, ": ",
                  std::strerror(seen == Folders::empty ? ENOENT : EACCES));
    return std::make_unique<Reader>(path, find(path));
  }
  std::unique_ptr<WriteFile> create(const std::string& path) override {
    call("create " + path);
    change({path, "", std::make_shared<File>()});
    return std::make_unique<Writer>(*this, now_.at(path));
  }
  void rename(const std::string& from, const std::string& to) override {
    call("rename " + from);
    change({to, from, find(from)});
  }
  void rename_new(const std::string& from, const std::string& to) override {
    if (has(to))
      throw Error(Errc::io, "cannot rename ", from, " to ", to, ": ", std::strerror(EEXIST));
    rename(from, to);
  }
  void remove(const std::string& path) override {
    if (crashed_) return;  // destructors of a process that is gone do nothing
    call("remove " + path);
    change({path, "", nullptr});
  }
  void sync_dir(const std::string&) override {
    call("sync directory");
    if (lie_on_sync) return;
    for (const Change& c : pending_) apply(durable_, c);
    pending_.clear();
  }
  int64_t free_bytes(const std::string&) override {
    return says_full || caller.is_full() ? 0 : int64_t{1} << 40;
  }
  std::string unique() override { return std::to_string(++uniques_); }

 private:
  struct File {
    std::string bytes;
    size_t synced = 0;
  };
  using Names = std::map<std::string, std::shared_ptr<File>>;
  struct Change {
    std::string path, from;      // from: a name that disappears
    std::shared_ptr<File> file;  // null: the name disappears
  };

  struct Reader final : ReadFile {
    Reader(std::string p, std::shared_ptr<File> f) : path(std::move(p)), file(std::move(f)) {}
    int64_t size() const override { return static_cast<int64_t>(file->bytes.size()); }
    void read(int64_t offset, std::span<std::byte> into) override {
      if (offset + static_cast<int64_t>(into.size()) > size())
        throw Error(Errc::io, "cannot read ", path, ": it ends at byte ", size());
      if (!into.empty()) std::memcpy(into.data(), file->bytes.data() + offset, into.size());
    }
    std::string path;
    std::shared_ptr<File> file;
  };
  struct Writer final : WriteFile {
    Writer(SimDisk& d, std::shared_ptr<File> f) : disk(d), file(std::move(f)) {}
    void write(std::span<const std::byte> bytes) override {
      const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      // A write that the crash interrupts has done a part; crash() draws how much of it stays.
      if (disk.calls == disk.crash_at) file->bytes += text.substr(0, text.size() / 2 + 1);
      disk.call("write");
      const int64_t room = disk.caller.is_full() ? 0
                           : disk.bytes_max < 0  ? INT64_MAX
                                                 : disk.bytes_max - disk.used();
      if (static_cast<int64_t>(text.size()) > room) {
        file->bytes += text.substr(0, static_cast<size_t>(std::max<int64_t>(room, 0)));
        throw Error(Errc::io, "cannot write: ", std::strerror(ENOSPC));
      }
      file->bytes += text;
    }
    void sync() override {
      disk.call("sync");
      if (!disk.lie_on_sync) file->synced = file->bytes.size();
    }
    SimDisk& disk;
    std::shared_ptr<File> file;
  };

  void call(const std::string& what) {
    if (crashed_) throw SimCrash{};
    if (calls == meanwhile_at && meanwhile) std::exchange(meanwhile, nullptr)();
    const int64_t number = calls++;
    if (number == crash_at) {
      crashed_ = true;
      throw SimCrash{};
    }
    if (number == fail_at || caller.fails())
      throw Error(Errc::io, "cannot ", what, ": ", std::strerror(EIO));
  }
  static void apply(Names& names, const Change& c) {
    if (!c.from.empty()) names.erase(c.from);
    if (c.file)
      names[c.path] = c.file;
    else
      names.erase(c.path);
  }
  void change(Change c) {
    apply(now_, c);
    pending_.push_back(std::move(c));
  }
  std::shared_ptr<File> find(const std::string& path) {
    auto it = now_.find(path);
    if (it == now_.end()) throw Error(Errc::io, "cannot open ", path, ": ", std::strerror(ENOENT));
    return it->second;
  }
  int64_t used() const {
    int64_t n = 0;
    for (const auto& [path, file] : now_) n += static_cast<int64_t>(file->bytes.size());
    return n;
  }

  Names now_, durable_;
  std::vector<Change> pending_;  // of names, since the last sync_dir()
  bool crashed_ = false;
  int64_t uniques_ = 0;
};

}  // namespace troupe
