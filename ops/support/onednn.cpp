// oneDNN for kernels: engine, stream, threads, memory objects.
#include "ops/support/onednn.hpp"

#include <dlfcn.h>

#include "devices/threads/isa.hpp"
#include "ops/support/layout_counts.hpp"

namespace troupe {
namespace {

// The OpenMP runtime comes with libdnnl; this library does not link one. Returns null if oneDNN was
// built without OpenMP.
template <class F>
F openmp_function(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

const dnnl::stream& stream_of_thread() {
  thread_local const dnnl::stream stream(onednn_engine());
  return stream;
}

[[noreturn]] void fail(const char* doing, dnnl_status_t status, const char* text) {
  throw InternalError("oneDNN failed when ", doing, ": status ", static_cast<int>(status), " ",
                      text);
}

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr onednn_attr() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

bool multiplies_bf16() {
  const auto has = [](dnnl::cpu_isa wanted) {
    const auto bits = static_cast<unsigned>(wanted);  // all bits must be present
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
  };
  return isa() == Isa::avx512 && has(dnnl::cpu_isa::avx512_core_bf16);
}

OneOpenMpThread::OneOpenMpThread() {
  static const auto get = openmp_function<int (*)()>("omp_get_max_threads");
  static const auto set = openmp_function<void (*)(int)>("omp_set_num_threads");
  if (!get || !set) return;
  before_ = get();
  if (before_ != 1) set(1);
}

OneOpenMpThread::~OneOpenMpThread() {
  static const auto set = openmp_function<void (*)(int)>("omp_set_num_threads");
  if (before_ > 1) set(before_);
}

std::unique_ptr<OneDnnPrimitive::Call> OneDnnPrimitive::take_call() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto call = std::move(idle_.back());
      idle_.pop_back();
      return call;
    }
  }
  auto call = std::make_unique<Call>();
  const auto add = [&](int name, const dnnl::memory::desc& type) {
    call->memories.emplace_back(type, onednn_engine(), nullptr);
    call->arguments.push_back({name, call->memories.back().get()});
  };
  for (const Argument& argument : arguments_) add(argument.name, argument.type);
  if (scratch_.get_size() > 0) add(DNNL_ARG_SCRATCHPAD, scratch_);
  return call;
}

int64_t OneDnnPrimitive::scratch_bytes() const { return static_cast<int64_t>(scratch_.get_size()); }

void OneDnnPrimitive::execute(KernelContext& ctx,
                              std::initializer_list<const void*> addresses) const {
  Tensor scratch;
  if (scratch_bytes() > 0) scratch = ctx.scratch(DType::u8, Shape{scratch_bytes()});
  execute(ctx, addresses, scratch.defined() ? scratch.mutable_raw() : nullptr);
}

void OneDnnPrimitive::execute(const KernelContext& ctx,
                              std::initializer_list<const void*> addresses, void* scratch) const {
  TROUPE_CHECK(addresses.size() == arguments_.size(), "a primitive with ", arguments_.size(),
               " arguments got ", addresses.size());
  if (primitive_.get_kind() == dnnl::primitive::kind::reorder) count_reorder();
  const OneOpenMpThread one_thread;
  auto call = take_call();
  size_t i = 0;
  const auto set = [&](const void* address) {
    const auto status =
        dnnl_memory_set_data_handle(call->arguments[i++].memory, const_cast<void*>(address));
    if (status != dnnl_success) fail("setting an argument", status, "");
  };
  for (const void* address : addresses) set(address);
  if (i < call->arguments.size()) set(scratch);
  const auto status =
      dnnl_primitive_execute(primitive_.get(), stream_of_thread().get(),
                             static_cast<int>(call->arguments.size()), call->arguments.data());
  if (status != dnnl_success) fail("executing", status, describe(ctx.node()).c_str());
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(call));
}

std::unique_ptr<OneDnnPrimitive> onednn_reorder(const dnnl::memory::desc& from,
                                                const dnnl::memory::desc& to) {
  if (from == to) return nullptr;
  const dnnl::reorder::primitive_desc desc(onednn_engine(), from, onednn_engine(), to,
                                           onednn_attr());
  return std::make_unique<OneDnnPrimitive>(
      dnnl::reorder(desc), desc.scratchpad_desc(),
      std::vector<OneDnnPrimitive::Argument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void onednn_compile(const std::function<void()>& make) {
  const OneOpenMpThread one_thread;
  try {
    make();
  } catch (const dnnl::error& error) {  // dnnl::error may not leave ops/
    fail("compiling a primitive", error.status, error.message);
  }
}

}  // namespace troupe
