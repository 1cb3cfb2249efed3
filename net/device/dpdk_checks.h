#pragma once

#include <cstddef>
#include <cstdint>

#include <pinion/lib/result.h>
#include <pinion/net/dpdk_eal.h>
#include <pinion/net/port_name.h>

/// What has to be there before DPDK is touched, looked up so that what is missing can be named.

namespace pinion::detail {

/// Bytes of the hugepages, of any size, that nobody uses. `folder` is the kernel's, or a test's.
[[nodiscard]] std::uint64_t free_hugepage_bytes(
    const char* folder = "/sys/kernel/mm/hugepages") noexcept;

/// Whether `memory` is to be hugepages, of which `free_bytes` are free.
[[nodiscard]] Result<bool> choose_hugepages(const DpdkMemory& memory, std::uint64_t free_bytes);

/// The MTU of an interface; 0 when there is none of that name.
[[nodiscard]] std::size_t interface_mtu(const char* name) noexcept;

/// Whether this process may open such a port, and its interface is there, or isn't in the way.
[[nodiscard]] Result<> check_port(const PortName& name);

}  // namespace pinion::detail
