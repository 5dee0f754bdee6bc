// oneDNN for kernels: compiled primitives that any number of threads may execute at once, and a
// cache of them by shape.
//
// oneDNN always runs on one OpenMP thread: more threads would change bits and compete with our
// lanes. Its scratch memory is the device's (user mode): in oneDNN's own mode, one primitive
// executed by two threads gives wrong results.
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
dnnl::primitive_attr onednn_attr();  // user scratchpad, defaults otherwise

// True if oneDNN multiplies bf16 into f32 on this processor faster than f32, and isa() allows it:
// AVX-512 with BF16.
bool multiplies_bf16();

// While it lives, this thread's OpenMP regions have one thread. The destructor restores the
// caller's setting.
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

  // `addresses`: the arguments' memory, in their order. The primitive's inputs are not written. Any
  // thread.
  void execute(KernelContext& ctx, std::initializer_list<const void*> addresses) const;
  // The same with the caller's scratch memory: scratch_bytes() at an address that is a multiple of
  // 64. For jobs, which may not allocate.
  void execute(const KernelContext& ctx, std::initializer_list<const void*> addresses,
               void* scratch) const;
  int64_t scratch_bytes() const;

 private:
  // Memory objects of one execution. Creating them costs as much as a tiny primitive, so idle ones
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
  mutable std::vector<std::unique_ptr<Call>> idle_;  // at most as many as ever ran at the same time
};

// desc: the descriptor that `primitive` was made of.
template <class Desc>
std::unique_ptr<OneDnnPrimitive> onednn_primitive(
    dnnl::primitive primitive, const Desc& desc, std::vector<OneDnnPrimitive::Argument> arguments) {
  return std::make_unique<OneDnnPrimitive>(std::move(primitive), desc.scratchpad_desc(),
                                           std::move(arguments));
}

// Reorders between two layouts of the same values; nullptr if the layouts are equal.
std::unique_ptr<OneDnnPrimitive> onednn_reorder(const dnnl::memory::desc& from,
                                                const dnnl::memory::desc& to);

// Runs `make`, which compiles primitives, on one OpenMP thread. Throws: InternalError if oneDNN
// refuses.
void onednn_compile(const std::function<void()>& make);

// A node's cache: one compiled value for each shape seen. Any thread.
template <class Key, class Value>
class ShapeCache {
 public:
  // Returns the value for `key`. If there is none, make() makes it and returns a
  // std::unique_ptr<Value>; other callers wait meanwhile, because they would have to compile the
  // same value.
  template <class Make>
  std::shared_ptr<const Value> get(const Key& key, Make make) const {
    const std::lock_guard lock(mutex_);
    if (const auto found = values_.find(key); found != values_.end()) return found->second;
    std::shared_ptr<const Value> made;
    onednn_compile([&] { made = make(); });
    // Clearing is cheap: oneDNN keeps compiled code, too.
    if (values_.size() >= kShapesMax) values_.clear();
    values_.emplace(key, made);
    return made;
  }

 private:
  // More shapes mean that every batch of the program has another shape.
  static constexpr size_t kShapesMax = 64;
  mutable std::mutex mutex_;
  mutable std::map<Key, std::shared_ptr<const Value>> values_;
};

}  // namespace troupe
