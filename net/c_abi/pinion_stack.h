#pragma once

// NOLINTBEGIN(modernize-*,readability-identifier-naming): C, and names as C has them.

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/// Pinion's TCP/IP stack for C and whatever speaks C: IPv4 and IPv6 with ICMP, UDP and TCP, as a
/// library without threads, clock, descriptors of the system or devices of its own. IP packets go
/// in and come out, time is what the caller says it is, and sockets are used as those of POSIX are.
///
/// Ownership:  whoever creates a stack destroys it. Packets, addresses and data are copied in and
///             out: the stack keeps no pointer to anything of the caller's but the wait hook's.
/// Threading:  a stack is used by one thread at a time. Stacks know nothing of each other.
/// Cost:       all memory is taken by pinion_stack_create(), but the queue of a UDP socket, which
///             comes when the socket is bound. Calls are bounded by what they move.
/// Errors:     a negative errno, such as -EAGAIN: no variable of a thread is set, so that other
///             languages and green threads can read it. 0 or more is success. No signal is raised.
///
/// Time:       nanoseconds from an origin of the caller's, below 2^62: 146 years. It stands still
///             between calls of pinion_stack_set_time(), which fires the timers on the way, each at
///             its time, also when it goes on by hours. A timer may be up to 1 ms late, never
///             early.
///
/// A turn of the embedder:
///   1  pinion_stack_set_time() to what the time is now; timers fire,
///   2  pinion_stack_give() for each packet that has arrived, in order. What is given within one
///      call is one burst, which is acknowledged as one: a tool that checks each packet's effect
///      gives them one by one,
///   3  calls of sockets, which act at once,
///   4  pinion_stack_take() until it gives nothing,
///   5  wait until a packet arrives or pinion_stack_next_deadline() comes.
/// The order of 1 to 4 is free; each call leaves what it caused ready to be taken. A packet that
/// arrived before a timer was due is given first, at the time of its arrival.
///
/// Packets:    bare IPv4 and IPv6, header first, no Ethernet: as a TUN device has them. Everything
///             that isn't for the stack itself leaves this way, whoever it is for: the link is the
///             default route of each family that has an address. What no host may send is dropped
///             and counted, as on a wire; give() then answers 0 all the same. 127.0.0.0/8, ::1 and
///             its own addresses are reached inside the stack.
///
/// Descriptors: the lowest number from 3 on that isn't in use, as POSIX has it; 0 to 2 are never
///             given. They are the stack's own: not the system's, nor another stack's, in which the
///             same number is another socket or -EBADF.
///
/// Blocking:   nothing waits by itself. Without a wait hook, calls that would block answer -EAGAIN,
///             connect -EINPROGRESS, as non-blocking sockets do. With one (pinion_stack_set_wait),
///             a socket that isn't non-blocking calls the hook instead, again and again until it
///             is done: there the embedder lets time pass and packets move.
///
/// Sockets:    of one family each (IPV6_V6ONLY is always on). Results and errors are those of Linux
///             unless a function's words say otherwise. All of them may answer
///               -EFAULT    a pointer that must point somewhere is NULL,
///               -EBADF     the descriptor is no open socket of this stack,
///               -EINVAL    a size, a flag or a value that doesn't exist.
///             Pointers that aren't NULL are believed, as is that a stack isn't destroyed yet.
///
/// Growing:    each struct begins with its size, which the caller sets to sizeof; 0 in every other
///             field means "the default". Fields are added at the end only. A library that is
///             older than the header answers -E2BIG when a field that it doesn't know is set; one
///             that is newer takes the fields that aren't there for 0.
///
/// A whole program, which sends five bytes from one stack to another. Build it with
/// `cc example.c $(pkg-config --cflags --libs pinion-stack)`.
///
///     #include <arpa/inet.h>
///     #include <netinet/in.h>
///     #include <pinion_stack.h>
///     #include <stdio.h>
///
///     static struct sockaddr_in at(const char *text, unsigned short port) {
///       struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
///       inet_pton(AF_INET, text, &in.sin_addr);
///       return in;
///     }
///
///     static pinion_stack *stack_at(const char *text) {
///       const struct sockaddr_in own = at(text, 0);
///       const struct pinion_stack_address address = {.size = sizeof address,
///                                                    .address = (const struct sockaddr *)&own,
///                                                    .address_size = sizeof own,
///                                                    .prefix_length = 24};
///       char message[200];
///       const struct pinion_stack_options options = {.size = sizeof options,
///                                                    .addresses = &address,
///                                                    .address_count = 1,
///                                                    .message = message,
///                                                    .message_size = sizeof message};
///       pinion_stack *stack = NULL;
///       if (pinion_stack_create(&options, &stack) != 0) fprintf(stderr, "%s\n", message);
///       return stack;
///     }
///
///     // Whether there was anything to carry.
///     static int carry(pinion_stack *from, pinion_stack *to) {
///       unsigned char packet[1500];
///       int count = 0;
///       ssize_t size;
///       while ((size = pinion_stack_take(from, packet, sizeof packet)) > 0) {
///         pinion_stack_give(to, packet, (size_t)size);
///         count++;
///       }
///       return count;
///     }
///
///     int main(void) {
///       pinion_stack *client = stack_at("192.0.2.1");
///       pinion_stack *server = stack_at("192.0.2.2");
///       if (client == NULL || server == NULL) return 1;
///       const struct sockaddr_in echo = at("192.0.2.2", 7);
///       const int listener = pinion_stack_socket(server, AF_INET, SOCK_STREAM, 0);
///       pinion_stack_bind(server, listener, (const struct sockaddr *)&echo, sizeof echo);
///       pinion_stack_listen(server, listener, 8);
///
///       const int socket = pinion_stack_socket(client, AF_INET, SOCK_STREAM, 0);
///       pinion_stack_connect(client, socket, (const struct sockaddr *)&echo, sizeof echo);
///       while (carry(client, server) + carry(server, client) > 0) continue;  // the handshake
///       pinion_stack_write(client, socket, "hello", 5);
///       while (carry(client, server) + carry(server, client) > 0) continue;
///
///       char text[16] = "";
///       const int accepted = pinion_stack_accept(server, listener, NULL, NULL);
///       const ssize_t got = pinion_stack_read(server, accepted, text, sizeof text - 1);
///       printf("%zd bytes: %s\n", got, text);
///       pinion_stack_destroy(client);
///       return pinion_stack_destroy(server) != 0 || got != 5;
///     }

#ifdef __cplusplus
extern "C" {
#define PINION_STACK_NOEXCEPT noexcept
#else
#define PINION_STACK_NOEXCEPT
#endif
#define PINION_STACK_API __attribute__((visibility("default")))

typedef struct pinion_stack pinion_stack;

/// The library's version, such as "0.1.0".
PINION_STACK_API const char* pinion_stack_version(void) PINION_STACK_NOEXCEPT;

// -------------------------------------------------------------------------------------------------
// Creating a stack

/// An address of the stack and the prefix of its link, such as 192.0.2.1/24.
struct pinion_stack_address {
  size_t size;
  const struct sockaddr* address;  ///< AF_INET or AF_INET6; its port says nothing.
  socklen_t address_size;
  uint32_t prefix_length;  ///< 1 to 32 or 128.
};

enum {
  PINION_STACK_NO_TIMESTAMPS = 1,    ///< Of RFC 7323: neither offered nor accepted.
  PINION_STACK_NO_WINDOW_SCALE = 2,  ///< Of RFC 7323.
  PINION_STACK_NO_SACK = 4,          ///< Of RFC 2018.
  /// Takes TCP and UDP whose checksum is that of the pseudo header alone: a sender on this machine
  /// has left the rest to a NIC that isn't there. Of all its packets: not where others send, too.
  PINION_STACK_TRUST_PARTIAL_CHECKSUMS = 8
};

/// 0 is the default that stands with each field.
struct pinion_stack_options {
  size_t size;
  const struct pinion_stack_address* addresses;  ///< One after the other, all of one size.
  size_t address_count;                          ///< 0 to 15.
  uint64_t seed;  ///< Of numbers, ports and hashes; 0: from the system. A known one is for tests.
  uint64_t start_ns;  ///< What the time is at first.
  char* message;      ///< Where pinion_stack_create() writes what is wrong, and a remedy; or NULL.
  size_t message_size;

  uint32_t mtu;    ///< Of the link: 1500. 576 to 65535, 1280 and up with IPv6 addresses.
  uint32_t flags;  ///< PINION_STACK_NO_… and PINION_STACK_TRUST_… .

  uint32_t max_sockets;      ///< Descriptors: 1024. Up to 2^20.
  uint32_t max_connections;  ///< Of TCP, closed ones on their way out included: 1024. Up to 2^20.
  uint32_t max_listeners;    ///< 64. Up to 65535.
  uint32_t max_half_open;    ///< Handshakes; beyond them SYN cookies: 1024. Up to 65535.
  uint32_t max_time_waits;   ///< Beyond them the oldest gives way: 1024. Up to 2^20.
  uint32_t packets;          ///< Of 2 KiB each, for everything that is held: 4096. 64 to 2^20.
  uint32_t tx_queue;         ///< Packets that wait for take(); what comes then is lost: 1024.

  uint32_t receive_buffer;  ///< SO_RCVBUF of new sockets: 262144.
  uint32_t send_buffer;     ///< SO_SNDBUF of new sockets: 262144.

  uint32_t delayed_ack_ms;           ///< 40. 1 to 400.
  uint32_t rto_min_ms;               ///< 200. 10 to 60000.
  uint32_t rto_max_ms;               ///< 60000. Up to 400000.
  uint32_t retransmission_limit_ms;  ///< Until a silent peer is given up: 600000. 100000 and up.
  uint32_t connect_limit_ms;         ///< The same for connect: 180000, which is the least.
  uint32_t time_wait_ms;             ///< 60000.
  uint32_t fin_wait_2_ms;            ///< For the peer's FIN after close: 60000.
  /// How long after close, or since the peer took a segment's worth of what was written, data is
  /// still taken and discarded: 2000. A peer that takes no segment in two minutes is reset.
  uint32_t linger_ms;

  uint16_t first_port;  ///< Of the ephemeral ones of TCP: 49152,
  uint16_t last_port;   ///< to 65535.
};

/// Makes a stack; `*stack` is NULL when that fails: -EINVAL, -ENOMEM, -E2BIG (see Growing),
/// -EADDRNOTAVAIL for an address that no host may have, -EEXIST for one that is given twice.
PINION_STACK_API int pinion_stack_create(const struct pinion_stack_options* options,
                                         pinion_stack** stack) PINION_STACK_NOEXCEPT;

/// Ends a stack, its sockets and what it holds; peers are told nothing. -EBUSY within a wait hook.
PINION_STACK_API int pinion_stack_destroy(pinion_stack* stack) PINION_STACK_NOEXCEPT;

// -------------------------------------------------------------------------------------------------
// Packets

/// Takes an IP packet that has arrived. -EMSGSIZE above 65535 bytes, -ENOBUFS when no packet is
/// left to hold it: then it counts as lost on the way.
PINION_STACK_API int pinion_stack_give(pinion_stack* stack, const void* packet,
                                       size_t size) PINION_STACK_NOEXCEPT;

/// The same for `count` packets that have arrived together, up to 1024. Answers how many were
/// taken, or the error of the first one.
PINION_STACK_API int pinion_stack_give_burst(pinion_stack* stack, const struct iovec* packets,
                                             int count) PINION_STACK_NOEXCEPT;

/// Copies the oldest packet that is to leave and answers its size; 0 when there is none. -EMSGSIZE
/// when `size` is too small: the packet stays. The MTU is always enough.
PINION_STACK_API ssize_t pinion_stack_take(pinion_stack* stack, void* buffer,
                                           size_t size) PINION_STACK_NOEXCEPT;

/// The size of the packet that pinion_stack_take() would give; 0 when there is none.
PINION_STACK_API ssize_t pinion_stack_next_size(pinion_stack* stack) PINION_STACK_NOEXCEPT;

// -------------------------------------------------------------------------------------------------
// Time

/// The time is `now_ns` from now on. -EINVAL, and nothing happens, when that is before what it was
/// or not below 2^62.
PINION_STACK_API int pinion_stack_set_time(pinion_stack* stack,
                                           uint64_t now_ns) PINION_STACK_NOEXCEPT;

/// What the time is.
PINION_STACK_API int pinion_stack_time(const pinion_stack* stack,
                                       uint64_t* now_ns) PINION_STACK_NOEXCEPT;

/// Until when nothing happens unless a packet or a call comes; UINT64_MAX when nothing ever does.
/// It may be earlier than the timer that it stands for.
PINION_STACK_API int pinion_stack_next_deadline(const pinion_stack* stack,
                                                uint64_t* deadline_ns) PINION_STACK_NOEXCEPT;

// -------------------------------------------------------------------------------------------------
// Blocking

/// Called when a call on the blocking socket `fd` can't go on. `events` is what it waits for, as
/// for poll: POLLIN or POLLOUT. The hook lets packets move and time pass, to `deadline_ns` at most
/// (UINT64_MAX: no limit; otherwise from SO_RCVTIMEO or SO_SNDTIMEO), and answers
///   0       to let the call try again; once the deadline has passed the call answers -EAGAIN,
///   errno   to end it, which then answers that negated: EINTR, say, or EAGAIN.
/// It may use all functions but pinion_stack_destroy(), other blocking calls too. If it closes
/// `fd`, the call answers -EBADF. One that answers 0 without letting anything happen is called for
/// ever, and an exception that leaves it ends the process.
typedef int pinion_stack_wait(void* user, pinion_stack* stack, int fd, short events,
                              uint64_t deadline_ns);

/// NULL takes the hook off.
PINION_STACK_API int pinion_stack_set_wait(pinion_stack* stack, pinion_stack_wait* hook,
                                           void* user) PINION_STACK_NOEXCEPT;

/// What O_NONBLOCK is to a descriptor of the system. SOCK_NONBLOCK and MSG_DONTWAIT work, too.
PINION_STACK_API int pinion_stack_set_nonblocking(pinion_stack* stack, int fd,
                                                  int on) PINION_STACK_NOEXCEPT;

/// The readiness of descriptors now: sets `revents` as poll(2) of Linux does and answers how many
/// have any. Never blocks. POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM and POLLRDHUP when asked for,
/// POLLERR, POLLHUP and POLLNVAL always; a negative fd is passed over. Of TCP:
///   not connected         POLLOUT | POLLHUP
///   connecting            nothing, until it is connected or has failed
///   failed, reset, over   POLLIN | POLLOUT | POLLRDHUP | POLLHUP; POLLERR while SO_ERROR is set
///   the peer's FIN came   POLLIN | POLLRDHUP; POLLHUP when both sides have sent one
///   after SHUT_WR         POLLOUT, as a write fails at once
///   room in the buffer    POLLOUT, when a third of it is free
///   listening             POLLIN when a connection waits
PINION_STACK_API int pinion_stack_poll(pinion_stack* stack, struct pollfd* fds,
                                       nfds_t count) PINION_STACK_NOEXCEPT;

// -------------------------------------------------------------------------------------------------
// Sockets

/// AF_INET or AF_INET6; SOCK_STREAM or SOCK_DGRAM, with SOCK_NONBLOCK and SOCK_CLOEXEC (no effect);
/// protocol 0, IPPROTO_TCP or IPPROTO_UDP. -EAFNOSUPPORT, -EPROTONOSUPPORT, -ESOCKTNOSUPPORT,
/// -EMFILE at max_sockets.
PINION_STACK_API int pinion_stack_socket(pinion_stack* stack, int domain, int type,
                                         int protocol) PINION_STACK_NOEXCEPT;

/// -EADDRNOTAVAIL: not an address of this stack. -EADDRINUSE: another socket of the stack has the
/// port; for TCP, SO_REUSEADDR on both lets them share it unless one listens. -EINVAL: it is bound
/// already. Port 0 draws one. Connections in TIME-WAIT hold no port.
PINION_STACK_API int pinion_stack_bind(pinion_stack* stack, int fd, const struct sockaddr* address,
                                       socklen_t size) PINION_STACK_NOEXCEPT;

/// The backlog is 1 to 4096 connections; less or more is moved there, a negative one to 4096. Again
/// for a socket that listens: it changes the backlog. -EADDRINUSE, -EOPNOTSUPP for UDP, -EINVAL for
/// one that is connected, -ENOBUFS at max_listeners. What is set of the socket is that of the
/// connections it accepts.
PINION_STACK_API int pinion_stack_listen(pinion_stack* stack, int fd,
                                         int backlog) PINION_STACK_NOEXCEPT;

/// `address` and `size` may both be NULL. -EAGAIN: nobody waits. -EINVAL: it doesn't listen.
/// -EMFILE: the connection goes on waiting. The new socket is blocking.
PINION_STACK_API int pinion_stack_accept(pinion_stack* stack, int fd, struct sockaddr* address,
                                         socklen_t* size) PINION_STACK_NOEXCEPT;

/// The same, with SOCK_NONBLOCK or SOCK_CLOEXEC.
PINION_STACK_API int pinion_stack_accept4(pinion_stack* stack, int fd, struct sockaddr* address,
                                          socklen_t* size, int flags) PINION_STACK_NOEXCEPT;

/// -EINPROGRESS: SYN is on its way; POLLOUT and SO_ERROR tell what comes of it, and so does the
/// next call: -EALREADY, or 0 once, then -EISCONN. After a failure, of which this call or SO_ERROR
/// tells once, the socket may connect again. -ENETUNREACH, -EADDRNOTAVAIL (no free port, or a
/// connection with these four numbers exists), -ENOBUFS at max_connections unless a close that
/// waits for its peer can be cut short, -EINVAL for port 0, -EISCONN for one that listens;
/// -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH by what comes back. 0.0.0.0 and :: are this host: the
/// address that the socket is bound to, otherwise the loopback one.
/// A UDP socket may be connected again, to somebody else; not with AF_UNSPEC.
PINION_STACK_API int pinion_stack_connect(pinion_stack* stack, int fd,
                                          const struct sockaddr* address,
                                          socklen_t size) PINION_STACK_NOEXCEPT;

/// Bytes or a datagram; 0 at the end of a stream, after SHUT_RD with nothing left, and for an empty
/// datagram. What had arrived before a reset is read first, then comes the error, once, then 0.
/// What is beyond `size` of a datagram is lost. -EAGAIN, -ENOTCONN, -ECONNRESET, -ETIMEDOUT
/// (keepalive too), -EHOSTUNREACH where ICMP has said why nothing was acknowledged; -ECONNREFUSED
/// and others of a connected UDP socket by ICMP.
PINION_STACK_API ssize_t pinion_stack_read(pinion_stack* stack, int fd, void* buffer,
                                           size_t size) PINION_STACK_NOEXCEPT;
PINION_STACK_API ssize_t pinion_stack_readv(pinion_stack* stack, int fd, const struct iovec* parts,
                                            int count) PINION_STACK_NOEXCEPT;
/// Flags: MSG_DONTWAIT, MSG_NOSIGNAL, and for a datagram MSG_TRUNC: its true size is the result.
/// -EOPNOTSUPP for others. Of a stream, no address is told: `*address_size` becomes 0.
PINION_STACK_API ssize_t pinion_stack_recvfrom(pinion_stack* stack, int fd, void* buffer,
                                               size_t size, int flags, struct sockaddr* address,
                                               socklen_t* address_size) PINION_STACK_NOEXCEPT;

/// How many bytes were taken: for a blocking stream all, else as many as there is room for.
/// -EAGAIN, -EPIPE when it isn't connected, is shut down, or was reset and that was told already.
/// Of UDP: -EDESTADDRREQ, -EMSGSIZE, -ENETUNREACH, -ENOBUFS; one that isn't bound gets a free port.
PINION_STACK_API ssize_t pinion_stack_write(pinion_stack* stack, int fd, const void* data,
                                            size_t size) PINION_STACK_NOEXCEPT;
PINION_STACK_API ssize_t pinion_stack_writev(pinion_stack* stack, int fd, const struct iovec* parts,
                                             int count) PINION_STACK_NOEXCEPT;
/// Flags: MSG_DONTWAIT and MSG_NOSIGNAL; -EOPNOTSUPP for others. -EISCONN for an address with a
/// stream. 0.0.0.0 and :: are this host, as in pinion_stack_connect().
PINION_STACK_API ssize_t pinion_stack_sendto(pinion_stack* stack, int fd, const void* data,
                                             size_t size, int flags, const struct sockaddr* address,
                                             socklen_t address_size) PINION_STACK_NOEXCEPT;

/// SHUT_RD, SHUT_WR or SHUT_RDWR. What the peer sends after SHUT_RD is still taken and can be read.
/// -ENOTCONN while it isn't connected, and for one that listens.
PINION_STACK_API int pinion_stack_shutdown(pinion_stack* stack, int fd,
                                           int how) PINION_STACK_NOEXCEPT;

/// Never blocks: what was written still goes out, then FIN. With unread data, or SO_LINGER of 0
/// seconds, RST. Connections that wait at a listener are reset.
PINION_STACK_API int pinion_stack_close(pinion_stack* stack, int fd) PINION_STACK_NOEXCEPT;

/// `*size` goes in as the room at `address` and comes out as the address's size; what doesn't fit
/// is cut off. The peer's name is -ENOTCONN unless it is connected.
PINION_STACK_API int pinion_stack_getsockname(pinion_stack* stack, int fd, struct sockaddr* address,
                                              socklen_t* size) PINION_STACK_NOEXCEPT;
PINION_STACK_API int pinion_stack_getpeername(pinion_stack* stack, int fd, struct sockaddr* address,
                                              socklen_t* size) PINION_STACK_NOEXCEPT;

/// Options, by the system's levels, names and types. Set at any time unless it says otherwise; of a
/// listener, for the connections that are accepted afterwards.
///   SOL_SOCKET
///     SO_ERROR, SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN     only got; SO_ERROR is cleared
///     SO_REUSEADDR         see pinion_stack_bind(); no effect on UDP
///     SO_KEEPALIVE         probes after TCP_KEEPIDLE; the silence before it was set counts
///     SO_LINGER            on with 0 s: close resets; otherwise no effect, since close never waits
///     SO_RCVTIMEO, SO_SNDTIMEO   bound blocking calls; -EDOM for microseconds beyond a second
///     SO_RCVBUF, SO_SNDBUF 4096 to 536870912, moved there, not doubled. Neither of a connection
///                          that is made or under way (-EISCONN), nor SO_RCVBUF of a socket that
///                          listens or of UDP that is bound (-EINVAL). SO_SNDBUF of UDP: no effect
///   IPPROTO_TCP
///     TCP_NODELAY
///     TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT   7200 s, 75 s, 9; 1 to 32767, to 6553, to 127
///     TCP_USER_TIMEOUT     milliseconds, rounded up to seconds, 65535 at most; 0: the default
///     TCP_MAXSEG           88 to 32767, or 0; -EISCONN once connected or under way, -EINVAL while
///                          it listens. Got of a connection: what its segments hold
///     TCP_INFO             only got: a struct tcp_info of <netinet/tcp.h> with state, options,
///                          scales, rto, rtt, rttvar, snd_mss, rcv_mss, advmss, pmtu, unacked,
///                          snd_cwnd, snd_ssthresh, rcv_space, retransmits; 0 elsewhere
///   IPPROTO_IP of AF_INET:      IP_TOS, 0 to 255; the two bits of ECN are dropped for TCP
///   IPPROTO_IPV6 of AF_INET6:   IPV6_TCLASS, the same, and -1 for 0; IPV6_V6ONLY, always 1
/// -ENOPROTOOPT for others; -EINVAL for a value too short or out of range.
PINION_STACK_API int pinion_stack_getsockopt(pinion_stack* stack, int fd, int level, int name,
                                             void* value, socklen_t* size) PINION_STACK_NOEXCEPT;
PINION_STACK_API int pinion_stack_setsockopt(pinion_stack* stack, int fd, int level, int name,
                                             const void* value,
                                             socklen_t size) PINION_STACK_NOEXCEPT;

// -------------------------------------------------------------------------------------------------
// Counters

/// Since the stack was created, unless it says "now".
struct pinion_stack_stats {
  size_t size;
  uint64_t packets_in;   ///< Given.
  uint64_t packets_out;  ///< Taken, or waiting to be.
  uint64_t tx_dropped;   ///< Since tx_queue was full.
  uint64_t tcp_segments_in;
  uint64_t tcp_segments_out;
  uint64_t tcp_retransmitted;  ///< Segments.
  uint64_t tcp_dropped;        ///< Segments that didn't fit, and those that were no TCP.
  uint64_t tcp_resets_in;
  uint64_t tcp_resets_out;
  uint64_t tcp_keepalive_probes;
  uint64_t udp_received;  ///< Datagrams for a socket.
  uint64_t udp_sent;
  uint64_t udp_dropped;      ///< For a socket whose queue was full.
  uint64_t sockets;          ///< Now.
  uint64_t tcp_connections;  ///< Now.
  uint64_t tcp_half_open;    ///< Now.
  uint64_t tcp_time_waits;   ///< Now.
  uint64_t packets_free;     ///< Now.
};

/// Fills in as many fields as both sides know, the others with 0.
PINION_STACK_API int pinion_stack_get_stats(pinion_stack* stack,
                                            struct pinion_stack_stats* stats) PINION_STACK_NOEXCEPT;

#ifdef __cplusplus
}
#endif

// NOLINTEND(modernize-*,readability-identifier-naming)
