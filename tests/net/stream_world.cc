#include "stream_world.h"

#include <pinion/lib/random.h>

namespace pinion::test {

std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

void StreamSuite::SetUp() {
  world_ = GetParam().make();
  ASSERT_NE(world_, nullptr);
  auto listener = transport().listen(world_->any_port());
  ASSERT_TRUE(listener.has_value()) << to_string(listener.error());
  listener_ = std::move(*listener);
}

TransportStats StreamSuite::stats() const {
  TransportStats sum = world_->transport().stats();
  if (&world_->client_transport() == &world_->transport()) return sum;
  const TransportStats client = world_->client_transport().stats();
  for (const TransportCounter& counter : transport_counters()) {
    sum.*counter.member += client.*counter.member;
  }
  return sum;
}

Task<StreamPair> StreamSuite::connected() {
  StreamPair pair;
  const Endpoint peer = endpoint();
  auto client = co_await client_transport().connect(peer, std::chrono::seconds{5});
  EXPECT_EQ(outcome(client), "ok");
  if (!client) co_return pair;
  auto server = co_await listener_.accept();
  EXPECT_EQ(outcome(server), "ok");
  if (!server) co_return pair;
  pair.client = std::move(*client);
  pair.server = std::move(*server);
  co_return pair;
}

Task<std::string> read_text(Stream& stream, std::size_t size) {
  std::string text;
  while (text.size() < size) {
    auto chunk = co_await stream.read(std::chrono::seconds{5});
    if (!chunk) break;
    text += chunk->text();
  }
  co_return text;
}

Task<StreamError> read_to_end(Stream& stream, std::size_t& size) {
  for (;;) {
    auto chunk = co_await stream.read(std::chrono::seconds{5});
    if (!chunk) co_return chunk.error();
    size += chunk->size();
  }
}

}  // namespace pinion::test
