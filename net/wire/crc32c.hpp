// CRC-32C (Castagnoli, RFC 3720), with the SSE 4.2 instruction where the machine has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe {

// Of `bytes`, continuing from the crc of what stood before (0 for nothing).
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
// The table version; what crc32c() falls back to.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace troupe
