// oneDNN for kernels: compiled primitives that any number of threads may execute at once, and a
// cache of them by shape.
//
// oneDNN runs on one OpenMP thread always: more would change bits and fight with our own lanes. Its
// scratch memory is the device's (user mode): in its own mode one primitive executed by two threads
// gives wrong results.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <dnnl.hpp>

#include "troupe/op.hpp"

namespace troupe {

const dnnl::engine& onednn_engine();
dnnl::primitive_attr onednn_attr();  // user scratchpad, else the defaults

// Whether oneDNN has products of bf16 in f32 for this processor that are faster than those of f32,
// and isa() allows them: AVX-512 with BF16.
bool multiplies_bf16();

// While it lives, this thread's OpenMP regions have one thread. The caller's own setting comes back
// after.
class OneOpenMpThread {
 public:
  OneOpenMpThread();
  ~OneOpenMpThread();
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_ = 0;
};

// One compiled primitive.
class OneDnnPrimitive {
 public:
  struct Argument {
    int name;  // DNNL_ARG_SRC, ...
    dnnl::memory::desc type;
  };
  OneDnnPrimitive(dnnl::primitive primitive, const dnnl::memory::desc& scratch,
                  std::vector<Argument> arguments)
      : primitive_(std::move(primitive)), scratch_(scratch), arguments_(std::move(arguments)) {}

  // `addresses`: of the arguments, in their order. Nothing is written to those that the primitive
  // reads. Any thread.
  void execute(KernelContext& ctx, std::initializer_list<const void*> addresses) const;
  // The same with scratch memory of the caller's, scratch_bytes() at an address that is a multiple
  // of 64: for jobs, which may not ask for memory.
  void execute(const KernelContext& ctx, std::initializer_list<const void*> addresses,
               void* scratch) const;
  int64_t scratch_bytes() const;

 private:
  // Memory objects of one execution; creating them costs as much as a tiny primitive, so idle ones
  // are kept.
  struct Call {
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  std::unique_ptr<Call> take_call() const;

  dnnl::primitive primitive_;
  dnnl::memory::desc scratch_;
  std::vector<Argument> arguments_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Call>> idle_;  // as many as have ever run at the same time
};

// Between two layouts of the same values; nullptr if they are the same layout.
std::unique_ptr<OneDnnPrimitive> onednn_reorder(const dnnl::memory::desc& from,
                                                const dnnl::memory::desc& to);

// Runs `make`, which compiles primitives, on one OpenMP thread. Throws: InternalError for what
// oneDNN refuses.
void onednn_compile(const std::function<void()>& make);

// What a node keeps: something compiled for each shape it has met. Any thread.
template <class Key, class Value>
class ShapeCache {
 public:
  // Made by make(), which returns a std::unique_ptr<Value>, when it is not there. Firings that ask
  // meanwhile wait: they would have to compile the same.
  template <class Make>
  std::shared_ptr<const Value> get(const Key& key, Make make) const {
    const std::lock_guard lock(mutex_);
    if (const auto found = values_.find(key); found != values_.end()) return found->second;
    std::shared_ptr<const Value> made;
    onednn_compile([&] { made = make(); });
    // oneDNN keeps compiled code, too, so that starting again is cheap.
    if (values_.size() >= kShapesMax) values_.clear();
    values_.emplace(key, made);
    return made;
  }

 private:
  static constexpr size_t kShapesMax = 64;  // more is a program whose every batch has another shape
  mutable std::mutex mutex_;
  mutable std::map<Key, std::shared_ptr<const Value>> values_;
};

}  // namespace troupe
