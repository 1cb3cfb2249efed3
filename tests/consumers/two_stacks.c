// A program in C11 outside the tree: two stacks in one process, whose calls block by a hook that lets
// packets move and time pass. Handshake, echo, keepalive of a peer that answers and of one that has
// gone, and an orderly close.

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pinion_stack.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world {
  pinion_stack *client;
  pinion_stack *server;
  bool cut;  ///< The wire loses everything.
};

static void require(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static struct sockaddr_in at(const char *text, in_port_t port) {
  struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
  require(inet_pton(AF_INET, text, &in.sin_addr) == 1, text);
  return in;
}

static pinion_stack *stack_at(const char *text) {
  const struct sockaddr_in own = at(text, 0);
  const struct pinion_stack_address address = {.size = sizeof address,
                                               .address = (const struct sockaddr *)&own,
                                               .address_size = sizeof own,
                                               .prefix_length = 24};
  char message[200] = "";
  const struct pinion_stack_options options = {.size = sizeof options,
                                               .addresses = &address,
                                               .address_count = 1,
                                               .message = message,
                                               .message_size = sizeof message};
  pinion_stack *stack = NULL;
  require(pinion_stack_create(&options, &stack) == 0, message);
  return stack;
}

static int carry(const struct world *world, pinion_stack *from, pinion_stack *to) {
  unsigned char packet[1500];
  int count = 0;
  ssize_t size;
  while ((size = pinion_stack_take(from, packet, sizeof packet)) > 0) {
    if (!world->cut) require(pinion_stack_give(to, packet, (size_t)size) == 0, "give");
    count++;
  }
  return count;
}

static void settle(const struct world *world) {
  while (carry(world, world->client, world->server) + carry(world, world->server, world->client)) {
  }
}

/// Packets move, or if there are none, time passes to the next timer, or by a millisecond.
static void turn(const struct world *world, uint64_t until) {
  settle(world);
  uint64_t now = 0;
  uint64_t next[2] = {0, 0};
  pinion_stack_time(world->client, &now);
  pinion_stack_next_deadline(world->client, &next[0]);
  pinion_stack_next_deadline(world->server, &next[1]);
  uint64_t to = next[0] < next[1] ? next[0] : next[1];
  if (to <= now) to = now + 1000000;
  if (to > until) to = until;
  require(pinion_stack_set_time(world->client, to) == 0, "the client's time");
  require(pinion_stack_set_time(world->server, to) == 0, "the server's time");
  settle(world);
}

static void run_until(const struct world *world, uint64_t until) {
  uint64_t now = 0;
  while (pinion_stack_time(world->client, &now), now < until) turn(world, until);
}

static int wait_for(void *user, pinion_stack *stack, int fd, short events, uint64_t deadline) {
  (void)stack;
  (void)fd;
  (void)events;
  turn(user, deadline);
  return 0;
}

static void set(pinion_stack *stack, int fd, int level, int name, int value) {
  require(pinion_stack_setsockopt(stack, fd, level, name, &value, sizeof value) == 0, "an option");
}

static void exchange(const struct world *world, int client, int server) {
  char text[64] = "";
  require(pinion_stack_write(world->client, client, "hello", 5) == 5, "write");
  require(pinion_stack_read(world->server, server, text, sizeof text) == 5, "read");
  require(pinion_stack_write(world->server, server, text, 5) == 5, "the echo");
  memset(text, 0, sizeof text);
  require(pinion_stack_read(world->client, client, text, sizeof text) == 5, "the echo's read");
  require(strcmp(text, "hello") == 0, "what was echoed");
}

int main(void) {
  struct world world = {.client = stack_at("192.0.2.1"), .server = stack_at("192.0.2.2")};
  require(pinion_stack_set_wait(world.client, wait_for, &world) == 0, "the client's hook");
  require(pinion_stack_set_wait(world.server, wait_for, &world) == 0, "the server's hook");

  const struct sockaddr_in echo = at("192.0.2.2", 7);
  const int listener = pinion_stack_socket(world.server, AF_INET, SOCK_STREAM, 0);
  require(pinion_stack_bind(world.server, listener, (const struct sockaddr *)&echo, sizeof echo) == 0,
          "bind");
  require(pinion_stack_listen(world.server, listener, 8) == 0, "listen");
  int client[2];
  int server[2];
  for (int i = 0; i < 2; i++) {
    client[i] = pinion_stack_socket(world.client, AF_INET, SOCK_STREAM, 0);
    require(pinion_stack_connect(world.client, client[i], (const struct sockaddr *)&echo,
                                 sizeof echo) == 0,
            "connect");
    server[i] = pinion_stack_accept(world.server, listener, NULL, NULL);
    require(server[i] >= 3, "accept");
    exchange(&world, client[i], server[i]);
  }

  set(world.client, client[0], SOL_SOCKET, SO_KEEPALIVE, 1);
  set(world.client, client[0], IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(world.client, client[0], IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(world.client, client[0], IPPROTO_TCP, TCP_KEEPCNT, 3);
  uint64_t now = 0;
  pinion_stack_time(world.client, &now);
  run_until(&world, now + UINT64_C(60000000000));
  struct pinion_stack_stats stats = {.size = sizeof stats};
  require(pinion_stack_get_stats(world.client, &stats) == 0, "stats");
  require(stats.tcp_keepalive_probes >= 5, "keepalive probes");
  exchange(&world, client[0], server[0]);

  // In order: what was written comes first.
  require(pinion_stack_write(world.client, client[1], "bye", 3) == 3, "the last write");
  require(pinion_stack_close(world.client, client[1]) == 0, "close");
  char text[64];
  require(pinion_stack_read(world.server, server[1], text, sizeof text) == 3, "the last bytes");
  require(pinion_stack_read(world.server, server[1], text, sizeof text) == 0, "the end");
  require(pinion_stack_close(world.server, server[1]) == 0, "the server's close");
  settle(&world);

  // Nobody answers any more: the blocking read ends.
  world.cut = true;
  require(pinion_stack_read(world.client, client[0], text, sizeof text) == -ETIMEDOUT,
          "the end by keepalive");

  require(pinion_stack_destroy(world.client) == 0, "destroy");
  require(pinion_stack_destroy(world.server) == 0, "the server's destroy");
  puts("ok");
  return 0;
}
