"""What tests of programs on the own stack share: a network namespace of this process's own, and
pinion-echo on a tap whose other end is the kernel's.
"""

import ctypes
import functools
import os
import subprocess
import unittest

import support

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
OWN = "10.9.0.1"
KERNEL = "10.9.0.2"
OWN6 = "fd09::1"
KERNEL6 = "fd09::2"
PORT = "tap:ptap0"


def built_with_dpdk():
    return "libpinion_dpdk" in support.run(["ldd", support.ECHO]).stdout


def write_to(path, text):
    with open(path, "w") as file:
        file.write(text)


@functools.cache
def why_no_ports():
    """Enters the namespace, which goes with the process; why that can't be, otherwise."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "no /dev/net/tun"
    user, group = os.geteuid(), os.getegid()
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    if unshare(CLONE_NEWNET) != 0:
        if unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
            return "no network namespace: " + os.strerror(ctypes.get_errno())
        write_to("/proc/self/setgroups", "deny")
        write_to("/proc/self/uid_map", f"0 {user} 1")
        write_to("/proc/self/gid_map", f"0 {group} 1")
    return None


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.DEVNULL)


class StackServer(support.Server):
    """pinion-echo on a tap whose other end has an address of either family."""

    def __init__(self, *arguments, address=OWN, **options):
        host = f"[{address}]" if ":" in address else address
        super().__init__(
            "--port", PORT, "--ip", f"{OWN}/24,{OWN6}/64", "--memory=small", "--stats", "0",
            *arguments, listen=f"{host}:7007", **options)
        try:
            ip("address", "add", f"{KERNEL}/24", "dev", "ptap0")
            ip("-6", "address", "add", f"{KERNEL6}/64", "dev", "ptap0", "nodad")
            ip("link", "set", "ptap0", "up")
        except BaseException:
            self.__exit__()
            raise


class TestCase(support.TestCase):
    @classmethod
    def setUpClass(cls):
        if not built_with_dpdk():
            raise unittest.SkipTest("no DPDK in this build")
        why = why_no_ports()
        if why:
            raise unittest.SkipTest(why)
