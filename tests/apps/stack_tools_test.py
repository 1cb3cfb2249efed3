"""The tools that one reaches for first, ping and traceroute, against pinion-echo on a tap."""

import re
import shutil
import unittest

import stack_world
import support
from stack_world import OWN, OWN6, StackServer

FLOOD = 2000
ADDRESSES = (OWN, OWN6)


def tool(name, *arguments):
    """Runs a tool to its end; what it said, its errors behind that."""
    path = shutil.which(name, path="/bin:/usr/bin:/sbin:/usr/sbin")
    if path is None:
        raise unittest.SkipTest(f"no {name}")
    done = support.run([path, *arguments])
    if done.returncode != 0:
        raise AssertionError(f"{name} {' '.join(arguments)}: {done}")
    return done.stdout + done.stderr


class Tools(stack_world.TestCase):
    def flood(self, address, size, how="-f"):
        """Sends the next request when the last one is answered, or after 10 ms."""
        said = tool("ping", "-n", "-q", how, "-c", str(FLOOD), "-s", str(size), address)
        self.assertIn(f"{FLOOD} packets transmitted, {FLOOD} received, 0% packet loss", said)
        self.assertNotIn("wrong", said)  # ping looks at the bytes that come back.
        self.assertNotIn("duplicates", said)

    def test_a_flood_of_pings_is_answered_without_a_loss(self):
        with StackServer() as server:
            for address in ADDRESSES:
                for size in (56, 1400):
                    with self.subTest(address=address, size=size):
                        self.flood(address, size)
            self.assertEqual(server.stop(), 0)

    def test_so_is_one_of_pings_in_fragments(self):
        with StackServer() as server:
            for address in ADDRESSES:
                for size in (1473, 5000):
                    with self.subTest(address=address, size=size):
                        # Adaptively: what a late ping has no room for in its socket isn't our loss.
                        self.flood(address, size, "-A")
            self.assertEqual(server.stop(), 0)

    def test_the_largest_ping_is_answered(self):
        with StackServer():
            for address in ADDRESSES:
                with self.subTest(address=address):
                    said = tool("ping", "-n", "-q", "-c", "3", "-i", "0.01", "-s", "65507", address)
                    self.assertIn("3 packets transmitted, 3 received, 0% packet loss", said)

    def trace(self, address, *method):
        """The one hop that traceroute finds, without the times of its three probes."""
        # It waits for each probe as for the first, however fast that one was answered.
        said = tool("traceroute", "-n", "-w", "20,0,0", *method, address)
        lines = said.splitlines()
        self.assertEqual(len(lines), 2, said)
        self.assertRegex(lines[0], rf"^traceroute to {address} \({address}\), 30 hops max, ")
        return re.sub(r"  \d+\.\d+ ms", " ms", lines[1])

    def test_traceroute_arrives_in_one_hop(self):
        methods = {
            "to closed ports": (),
            "by UDP to one closed port": ("-U", "-p", "7009"),
            "by pings": ("-I",),
            "by SYNs to a port where somebody listens": ("-T", "-p", "7007"),
            "by SYNs to a closed port": ("-T", "-p", "7008"),
        }
        with StackServer() as server:
            for address in ADDRESSES:
                for name, method in methods.items():
                    with self.subTest(name, address=address):
                        self.assertEqual(self.trace(address, *method), f" 1  {address} ms ms ms")
            # Half-open connections were all that it made.
            self.assertEqual(server.stop(), 0)
            self.assertIn("connections  0 accepted, 0 open, 0 closing\n", server.output)


if __name__ == "__main__":
    support.main()
