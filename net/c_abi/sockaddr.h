#pragma once

#include <sys/socket.h>

#include <pinion/net/address.h>

/// Endpoints as the system's struct sockaddr, of any alignment.
///
/// Ownership:  values; the caller's memory is read or written once.
/// Threading:  any.
/// Cost:       a copy.
/// Errors:     a negative errno.

namespace pinion::c_abi {

/// -EFAULT, -EINVAL for a wrong size, -EAFNOSUPPORT for another family than that of `v6`.
[[nodiscard]] int read_sockaddr(const sockaddr* address, socklen_t size, bool v6,
                                Endpoint& into) noexcept;

/// The same for either family.
[[nodiscard]] int read_sockaddr(const sockaddr* address, socklen_t size, Endpoint& into) noexcept;

/// Writes as much as `*size` has room for, and the whole size there.
void write_sockaddr(const Endpoint& endpoint, sockaddr* address, socklen_t* size) noexcept;

}  // namespace pinion::c_abi
