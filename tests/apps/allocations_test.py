"""A warm pinion-echo makes no heap allocation, with its timeouts armed."""

import mmap
import struct
import tempfile
import time

import support

REQUESTS = 1_000_000
# On a busy machine an ordinary run stops early; a campaign (PINION_TEST_SCALE) goes on.
ORDINARY_SECONDS = 30


class Allocations(support.TestCase):
    def test_none_after_warm_up(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(8))
            file.flush()
            counter = mmap.mmap(file.fileno(), 8)
            environment = {
                "LD_PRELOAD": support.ALLOCATION_COUNTER,
                "PINION_ALLOCATION_COUNTER": file.name,
            }
            count = lambda: struct.unpack("Q", counter[:8])[0]
            with support.Server("--stats", "0", environment=environment) as server:
                self.assertGreater(count(), 0, "the counter counts")
                arguments = ("--connections", "100", "--warmup", "0s", "--duration")
                done, _ = support.load(server.address, *arguments, "1s")
                self.assertEqual(done.returncode, 0, done)
                before = count()
                answered = 0
                end = time.monotonic() + ORDINARY_SECONDS
                while answered < REQUESTS and (time.monotonic() < end or support.scale() > 1):
                    done, results = support.load(server.address, *arguments, "4s")
                    self.assertEqual(done.returncode, 0, done)
                    answered += results["requests_answered"]
                self.assertEqual(count() - before, 0, f"allocations in {answered} requests")
                print(f"{answered} requests, {count() - before} allocations")
                self.assertGreater(answered, 1000)
                self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    support.main()
