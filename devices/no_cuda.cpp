// Replaces devices/cuda.cpp in a build without CUDA: there are no GPUs.
#include "devices/device.hpp"

namespace troupe {

int cuda_device_count() { return 0; }

std::unique_ptr<Device> make_cuda_device(std::string name, int index, int64_t) {
  throw Error(Errc::bad_configuration, "device ", name, " wants GPU ", index,
              ", but this was built without CUDA; configure with -DTROUPE_CUDA=ON");
}

}  // namespace troupe
