"""pinion-echo on a port of its own, as the kernel at the other end of a tap sees it.

Everything happens in a network namespace that this process makes for itself.
"""

import random
import select
import socket
import struct
import threading

import stack_world
import support
from stack_world import KERNEL, OWN, OWN6, PORT, StackServer, built_with_dpdk
from support import ECHO, run


def internet_checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class KernelClients:
    """The kernel's TCP against ours, over one family."""

    def test_they_are_answered(self):
        data = random.Random(1).randbytes(1 << 20)
        with StackServer(address=self.address) as server:
            self.assertIn(f"backend own stack on {PORT} as {OWN}/24,{OWN6}/64, ",
                          server.first_line)
            with server.connect() as connection:
                connection.sendall(b"first")
                self.assertEqual(support.receive_exactly(connection, 5), b"first")
                sender = threading.Thread(
                    target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
                sender.start()
                # Half closed, it gets every answer, and then the server's end.
                self.assertEqual(support.receive_until_end(connection), data)
                sender.join()
            self.assertEqual(server.stop(), 0)
            self.assertRegex(server.output, r"connections  1 accepted, 0 open, 0 closing\n")
            self.assertIn(f"{len(data) + 5} bytes in, {len(data) + 5} bytes out\n", server.output)
            self.assertIn("resets       0 received, 0 sent\n", server.output)

    def test_a_reset_ends_its_connection_alone(self):
        with StackServer(address=self.address) as server:
            with server.connect() as other:
                connection = server.connect()
                connection.sendall(b"x")
                self.assertEqual(support.receive_exactly(connection, 1), b"x")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
                for _ in range(10):
                    other.sendall(b"still here")
                    self.assertEqual(support.receive_exactly(other, 10), b"still here")
            self.assertEqual(server.stop(), 0)
            self.assertIn("resets       1 received, 0 sent\n", server.output)

    def test_nobody_listens_on_other_ports(self):
        with StackServer(address=self.address):
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection((self.address, 7008), timeout=support.PATIENCE)


class Ipv4Clients(KernelClients, stack_world.TestCase):
    address = OWN


class Ipv6Clients(KernelClients, stack_world.TestCase):
    address = OWN6


class StackEcho(stack_world.TestCase):
    def test_it_answers_pings(self):
        with StackServer(), socket.socket(
                socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
            raw.bind((KERNEL, 0))
            payload = random.Random(2).randbytes(1000)
            header = struct.pack("!BBHHH", 8, 0, 0, 0x1234, 1)
            checksum = internet_checksum(header + payload)
            raw.sendto(header[:2] + struct.pack("!H", checksum) + header[4:] + payload, (OWN, 0))
            while True:
                ready, _, _ = select.select([raw], [], [], support.PATIENCE)
                self.assertTrue(ready, "no answer")
                packet = raw.recv(2048)
                if packet[20] == 0:  # An echo reply, behind the IPv4 header.
                    break
            self.assertEqual(packet[24:28], header[4:])
            self.assertEqual(packet[28:], payload)

    def test_many_at_once_and_a_drain(self):
        with StackServer("--drain-timeout", "30s") as server:
            connections = [server.connect() for _ in range(50)]
            for number, connection in enumerate(connections):
                connection.sendall(bytes([number]) * 3000)
            for number, connection in enumerate(connections):
                self.assertEqual(support.receive_exactly(connection, 3000), bytes([number]) * 3000)
            server.signal()
            for connection in connections:
                self.assertEqual(support.receive_until_end(connection), b"")
                connection.close()
            self.assertEqual(server.wait(), 0)
            self.assertRegex(server.output, r"connections  50 accepted, 0 open, 0 closing\n")

    def test_listening_follows_the_address(self):
        done = run([ECHO, "--ip", f"{OWN}/24", "--port", PORT, "--print-config"])
        self.assertIn(f'listen = "{OWN}:7007"', done.stdout)


class WrongUse(support.TestCase):
    def test_a_port_needs_an_address(self):
        self.assert_error(run([ECHO, "--port", PORT]), 2,
                          "--port tap:ptap0 needs an address", r"--ip 10\.9\.0\.1/24")

    def test_an_address_needs_a_port(self):
        self.assert_error(run([ECHO, "--ip", f"{OWN}/24"]), 2,
                          "--ip and --gateway are for the own stack, .*", "--port .*")

    def test_trust_needs_a_port(self):
        self.assert_error(run([ECHO, "--trust-partial-checksums"]), 2,
                          "--trust-partial-checksums is for the own stack, .*", "--port .*")

    def test_memory_needs_a_port(self):
        self.assert_error(run([ECHO, "--memory", "256M"]), 2,
                          "--memory 256M is for DPDK, and no --port is given", "--port .*")

    def test_ports_and_addresses_that_are_none(self):
        self.assert_error(run([ECHO, "--port", "tap"]), 2, "--port tap: .*",
                          "--port PORT, such as tap:ptap0 .*")
        self.assert_error(run([ECHO, "--port", PORT, "--ip", OWN]), 2,
                          rf"--ip {OWN}: .*the prefix's length is missing",
                          "--ip ADDR/LENGTH, such as .*")
        self.assert_error(run([ECHO, "--port", PORT, "--ip", f"{OWN}/33"]), 2,
                          rf"--ip {OWN}/33: .*'33' is no length from 1 to 32",
                          "--ip ADDR/LENGTH, such as .*")

    def test_one_queue_is_for_one_lcore(self):
        self.assert_error(run([ECHO, "--port", PORT, "--ip", f"{OWN}/24", "--lcores", "2"]), 2,
                          "--port tap:ptap0 has one queue, and --lcores is 2", "--lcores 1")

    def test_listening_elsewhere(self):
        self.assert_error(
            run([ECHO, "--port", PORT, "--ip", f"{OWN}/24", "--listen", "127.0.0.1:7007"]), 2,
            r"--listen 127\.0\.0\.1:7007 is no address of --port tap:ptap0",
            r"--listen 10\.9\.0\.1:7007")

    def test_memory(self):
        if not built_with_dpdk():
            self.assert_error(run([ECHO, "--port", PORT, "--ip", f"{OWN}/24"]), 2,
                              "--port tap:ptap0 needs DPDK, .*", "apt-get install libdpdk-dev.*")
            return
        done = run([ECHO, "--port", PORT, "--ip", f"{OWN}/24", "--memory", "tiny"])
        self.assert_error(done, 2, ".*tiny.*", ".*small.*")


if __name__ == "__main__":
    support.main()
