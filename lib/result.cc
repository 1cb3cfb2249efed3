#include <pinion/lib/result.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace pinion {
namespace {

ErrorCode code_of_errno(int value) noexcept {
  switch (value) {
    case EINVAL:
    case EDOM:
    case ENAMETOOLONG:
    case EISDIR:
    case ENOTDIR:
    case EDESTADDRREQ:
      return ErrorCode::invalid_argument;
    case ENOENT:
    case ESRCH:
    case ENODEV:
    case ENXIO:
    case EADDRNOTAVAIL:
      return ErrorCode::not_found;
    case EEXIST:
    case EADDRINUSE:
    case EISCONN:
      return ErrorCode::already_exists;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::permission_denied;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case ENOBUFS:
    case EDQUOT:
      return ErrorCode::resource_exhausted;
    case EAGAIN:
    case EBUSY:
    case ECONNREFUSED:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
      return ErrorCode::unavailable;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
    case ESOCKTNOSUPPORT:
    case ENOPROTOOPT:
      return ErrorCode::unsupported;
    case ECANCELED:
      return ErrorCode::cancelled;
    case ETIMEDOUT:
    case ETIME:
      return ErrorCode::timed_out;
    default:
      return ErrorCode::io_error;
  }
}

}  // namespace

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::already_exists:
      return "already_exists";
    case ErrorCode::permission_denied:
      return "permission_denied";
    case ErrorCode::resource_exhausted:
      return "resource_exhausted";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::io_error:
      return "io_error";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::timed_out:
      return "timed_out";
  }
  return "unknown";
}

std::string to_string(const Error& error) {
  std::string text = "error: " + error.what;
  if (!error.hint.empty()) text += "\nfix: " + error.hint;
  return text;
}

tl::unexpected<Error> fail(ErrorCode code, std::string what, std::string hint) {
  return tl::unexpected<Error>(Error{code, std::move(what), std::move(hint)});
}

Error errno_error(int errno_value, std::string what, std::string hint) {
  const int value = errno_value < 0 ? -errno_value : errno_value;
  what += ": " + std::generic_category().message(value);
  return Error{code_of_errno(value), std::move(what), std::move(hint)};
}

}  // namespace pinion
