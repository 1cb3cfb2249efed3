#!/usr/bin/python3
"""Our wire formats against Scapy's: wire_oracle, a program of ours, is asked line by line.

usage: scapy_oracle.py WIRE_ORACLE [CASE…]

Random packets of a seed that PINION_SEED replays. What Scapy builds we read as Scapy does, what we
build is what Scapy builds, and what is spoilt we refuse for a reason that Scapy's fields show. The
interpreter is the distribution's, whose package Scapy is.
"""

import ipaddress
import os
import random
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "support"))
import tap  # pylint: disable=wrong-import-position

try:
    from scapy.layers import inet, inet6, l2
    from scapy.utils import checksum
except ImportError:
    inet = inet6 = l2 = checksum = None

SEED = int(os.environ.get("PINION_SEED") or str(random.SystemRandom().getrandbits(32)), 0)
ROUNDS = 300
PROGRAM = None
NEIGHBOR_OPTIONS = {135: "ICMPv6NDOptSrcLLAddr", 136: "ICMPv6NDOptDstLLAddr"}


def mac_hex(text):
    return text.replace(":", "")


def ip_hex(text):
    return ipaddress.ip_address(text).packed.hex()


def line_of(fields):
    return " ".join(f"{name}={value}" for name, value in fields.items())


class Draw:
    """Random packets and their parts."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def below(self, bound):
        return self.random.randrange(bound)

    def mac(self):
        return ":".join(f"{self.below(256):02x}" for _ in range(6))

    def ip4(self):
        return str(ipaddress.IPv4Address(self.random.getrandbits(32)))

    def ip6(self):
        return str(ipaddress.IPv6Address(0x2001 << 112 | self.random.getrandbits(112)))

    def payload(self, unit=1):
        return self.random.randbytes(unit * (1 + self.below(64 // unit)))

    def ethernet(self):
        packet = l2.Ether(dst=self.mac(), src=self.mac(), type=0x86DD)
        tags = self.below(3)
        for i in range(tags):
            tag = l2.Dot1AD if i == 0 and self.below(2) else l2.Dot1Q
            packet.lastlayer().type = 0x88A8 if tag is l2.Dot1AD else 0x8100
            packet = packet / tag(prio=self.below(8), vlan=self.below(4096), type=0x0800)
        return packet

    def arp(self):
        return l2.ARP(
            op=1 + self.below(2),
            hwsrc=self.mac(),
            psrc=self.ip4(),
            hwdst=self.mac(),
            pdst=self.ip4(),
        )

    def ip4_options(self):
        routers = [self.ip4() for _ in range(1 + self.below(2))]
        choices = [
            [],
            [inet.IPOption_NOP(), inet.IPOption_Router_Alert()],
            [inet.IPOption_RR(pointer=4, routers=routers)],
            [inet.IPOption_LSRR(pointer=4, routers=routers)],
            [inet.IPOption_NOP(), inet.IPOption_SSRR(pointer=4, routers=routers)],
        ]
        return choices[self.below(len(choices))]

    def ipv4(self, options=True):
        fragment = self.below(3) == 0
        return inet.IP(
            tos=self.below(256),
            id=self.below(65536),
            flags=self.below(2) * 2 + fragment,
            frag=self.below(8000) if fragment else 0,
            ttl=self.below(256),
            proto=253,
            src=self.ip4(),
            dst=self.ip4(),
            options=self.ip4_options() if options else [],
        ) / self.payload(8 if fragment else 1)

    def ipv6(self, extensions=True):
        packet = inet6.IPv6(
            tc=self.below(256),
            fl=self.below(1 << 20),
            hlim=self.below(256),
            src=self.ip6(),
            dst=self.ip6(),
        )
        if not extensions:
            packet.nh = 253
            return packet / self.payload()
        if self.below(2):
            packet = packet / inet6.IPv6ExtHdrHopByHop(options=[inet6.RouterAlert()])
        if self.below(2):
            pad = inet6.PadN(optdata=b"\0" * 4)
            packet = packet / inet6.IPv6ExtHdrDestOpt(options=[pad])
        if self.below(2):
            packet = packet / inet6.IPv6ExtHdrRouting(segleft=0, addresses=[self.ip6()])
        if self.below(2):
            packet = packet / inet6.IPv6ExtHdrFragment(
                nh=253, offset=self.below(8000), m=self.below(2), id=self.below(1 << 32)
            )
            return packet / self.payload(8)
        return packet / inet.UDP(sport=self.below(65536), dport=1, chksum=1) / self.payload()

    def udp(self):
        return inet.UDP(
            sport=self.below(65536), dport=self.below(65536), chksum=self.below(65536)
        ) / self.payload()

    def between_hosts(self):
        if self.below(2):
            return inet.IP(src=self.ip4(), dst=self.ip4(), proto=6)
        return inet6.IPv6(src=self.ip6(), dst=self.ip6(), nh=6)

    def words(self, count):
        return tuple(self.random.getrandbits(32) for _ in range(count))

    def tcp_option(self):
        """Any option: twice, at any byte, unknown ones, the list's end with something behind it."""
        choices = [
            ("MSS", self.below(65536)),
            ("WScale", self.below(20)),
            ("SAckOK", b""),
            ("Timestamp", self.words(2)),
            ("SAck", self.words(2 + 2 * self.below(4))),
            ("UTO", self.below(65536)),
            (200 + self.below(50), self.random.randbytes(self.below(6))),
            ("NOP", None),
            ("NOP", None),
            ("EOL", None),
        ]
        return choices[self.below(len(choices))]

    def tcp_options(self):
        options = []
        for _ in range(self.below(8)):
            more = options + [self.tcp_option()]
            if len(bytes(inet.TCP(options=more))) <= 60:
                options = more
        return options

    def our_tcp_options(self):
        """In the order and with the padding that ours have."""
        nop, options = ("NOP", None), []
        if self.below(2):
            options += [("MSS", self.below(65536))]
        sackok, timestamps = self.below(2), self.below(2)
        options += [nop] * (2 * (sackok ^ timestamps))
        options += [("SAckOK", b"")] * sackok
        options += [("Timestamp", self.words(2))] * timestamps
        if self.below(2):
            options += [nop, ("WScale", self.below(15))]
        room = (60 - len(bytes(inet.TCP(options=options))) - 4) // 8
        if room > 0 and self.below(2):
            options += [nop, nop, ("SAck", self.words(2 + 2 * self.below(min(room, 4))))]
        return options

    def tcp(self, ours=False):
        flags = self.below(256 if ours else 512)
        if flags & 2:
            flags &= ~5  # SYN has neither FIN nor RST
        return self.between_hosts() / inet.TCP(
            sport=1 + self.below(65535),
            dport=1 + self.below(65535),
            seq=self.random.getrandbits(32),
            ack=self.random.getrandbits(32),
            reserved=0 if ours else self.below(8),
            flags=flags,
            window=self.below(65536),
            urgptr=self.below(65536),
            options=self.our_tcp_options() if ours else self.tcp_options(),
        ) / self.random.randbytes(self.below(64))

    def spoilt_tcp(self):
        """A segment with something wrong about it, its checksum right as often as not."""
        ip, segment = split_tcp(bytes(self.tcp()))
        size = inet.TCP(segment).dataofs * 4
        spoil = self.below(7)
        if spoil == 0:
            segment[12] = self.below(256)
        elif spoil == 1:
            at = 2 * self.below(2)
            segment[at : at + 2] = b"\0\0"
        elif spoil == 2:
            segment[13] = self.below(256)
        elif spoil == 3:
            segment = segment[: self.below(len(segment) + 1)]
        elif spoil < 6 and size > 20:
            for _ in range(1 + self.below(2)):
                segment[20 + self.below(size - 20)] = self.below(12)
        checks = self.below(4) != 0
        if checks and len(segment) >= 18:
            segment[16:18] = b"\0\0"
            segment[16:18] = tcp_checksum(ip / bytes(segment)).to_bytes(2, "big")
        elif segment:
            segment[self.below(len(segment))] ^= 1 << self.below(8)
        return bytes(ip / bytes(segment))

    def ndp(self):
        if self.below(2):
            return inet6.ICMPv6ND_NS(cksum=0, tgt=self.ip6()) / inet6.ICMPv6NDOptSrcLLAddr(
                lladdr=self.mac()
            )
        flags = {name: self.below(2) for name in "RSO"}
        return inet6.ICMPv6ND_NA(
            cksum=0, tgt=self.ip6(), **flags
        ) / inet6.ICMPv6NDOptDstLLAddr(lladdr=self.mac())


# What Scapy reads in bytes, as wire_oracle writes it.


def fields_of_ethernet(raw):
    packet = l2.Ether(raw)
    tags = ""
    at = packet
    while at.type in (0x8100, 0x88A8):
        tag = at.payload
        dei = tag.dei if hasattr(tag, "dei") else tag.id
        tags += f"/{at.type:04x}.{tag.prio}.{int(dei)}.{tag.vlan}"
        at = tag
    return {"dst": mac_hex(packet.dst), "src": mac_hex(packet.src), "tags": tags, "type": at.type}


def fields_of_arp(raw):
    packet = l2.ARP(raw)
    return {
        "op": packet.op,
        "hwsrc": mac_hex(packet.hwsrc),
        "psrc": ip_hex(packet.psrc),
        "hwdst": mac_hex(packet.hwdst),
        "pdst": ip_hex(packet.pdst),
    }


def fields_of_ipv4(raw):
    packet = inet.IP(raw)
    size = packet.ihl * 4
    routes = (inet.IPOption_LSRR, inet.IPOption_SSRR)
    return {
        "tos": packet.tos,
        "payload": packet.len - size,
        "id": packet.id,
        "df": int(packet.flags.DF),
        "mf": int(packet.flags.MF),
        "frag": packet.frag,
        "ttl": packet.ttl,
        "proto": packet.proto,
        "src": ip_hex(packet.src),
        "dst": ip_hex(packet.dst),
        "options": raw[20:size].hex(),
        "source_route": int(any(isinstance(option, routes) for option in packet.options)),
        "checksum": "good" if checksum(raw[:size]) == 0 else "bad",
    }


def fields_of_ipv6(raw):
    packet = inet6.IPv6(raw)
    fields = {
        "tc": packet.tc,
        "fl": packet.fl,
        "plen": packet.plen,
        "nh": packet.nh,
        "hlim": packet.hlim,
        "src": ip_hex(packet.src),
        "dst": ip_hex(packet.dst),
    }
    extensions = (
        inet6.IPv6ExtHdrHopByHop,
        inet6.IPv6ExtHdrDestOpt,
        inet6.IPv6ExtHdrRouting,
        inet6.IPv6ExtHdrFragment,
    )
    protocol, walked, fragment, at = packet.nh, 0, "none", packet.payload
    while isinstance(at, extensions):
        protocol = at.nh
        walked += len(at) - len(at.payload)
        if isinstance(at, inet6.IPv6ExtHdrFragment) and (at.offset or at.m):
            fragment = f"{at.id}.{at.offset}.{at.m}"
            break
        at = at.payload
    return {**fields, "protocol": protocol, "walked": walked, "fragment": fragment}


def fields_of_udp(raw):
    packet = inet.UDP(raw)
    return {
        "sport": packet.sport,
        "dport": packet.dport,
        "payload": packet.len - 8,
        "chksum": packet.chksum,
    }


def split_tcp(raw):
    """An IP packet's header without lengths, and its segment."""
    if raw[0] >> 4 == 4:
        packet = inet.IP(raw[:20])
        return inet.IP(src=packet.src, dst=packet.dst, proto=6), bytearray(raw[20:])
    packet = inet6.IPv6(raw[:40])
    return inet6.IPv6(src=packet.src, dst=packet.dst, nh=6), bytearray(raw[40:])


def tcp_checksum(packet):
    """By Scapy: of a segment that has its own, 0 if that is right."""
    segment = bytes(packet.payload)
    if isinstance(packet, inet.IP):
        return inet.in4_chksum(6, packet, segment)
    return inet6.in6_chksum(6, packet, segment)


def fields_of_tcp(raw):
    ip, segment = split_tcp(raw)
    packet = inet.TCP(segment)
    size = packet.dataofs * 4
    # Of an option that comes twice, the last one counts for us.
    known = dict(packet.options)
    scale = known.get("WScale")
    stamps = known.get("Timestamp")
    edges = known.get("SAck", ())
    return {
        "src": ip_hex(ip.src),
        "dst": ip_hex(ip.dst),
        "sport": packet.sport,
        "dport": packet.dport,
        "seq": packet.seq,
        "ack": packet.ack,
        "dataofs": packet.dataofs,
        "flags": int(packet.flags) & 0xFF,  # the ninth is a reserved bit for us
        "window": packet.window,
        "urgptr": packet.urgptr,
        "mss": known.get("MSS", "none"),
        "wscale": "none" if scale is None else min(scale, 14),  # RFC 7323, 2.3
        "sackok": int("SAckOK" in known),
        "ts": "none" if stamps is None else f"{stamps[0]}.{stamps[1]}",
        "sack": "".join(f"/{a}.{b}" for a, b in zip(edges[::2], edges[1::2])),
        "data": segment[size:].hex(),
    }


def fields_of_ndp(raw):
    advertises = raw[0] == 136
    packet = (inet6.ICMPv6ND_NA if advertises else inet6.ICMPv6ND_NS)(raw)
    option = packet.getlayer(getattr(inet6, NEIGHBOR_OPTIONS[raw[0]]))
    return {
        "type": packet.type,
        "R": packet.R if advertises else 0,
        "S": packet.S if advertises else 0,
        "O": packet.O if advertises else 0,
        "tgt": ip_hex(packet.tgt),
        "lladdr": mac_hex(option.lladdr) if option else "none",
    }


# Why bytes without options or extensions are refused, by Scapy's fields; None when they are not.


def fault_of_arp(raw):
    if len(raw) < 28:
        return "arp_truncated"
    packet = l2.ARP(raw + bytes(1024))  # room for addresses of any length
    if (packet.hwtype, packet.hwlen) != (1, 6):
        return "arp_hardware"
    if (packet.ptype, packet.plen) != (0x0800, 4):
        return "arp_protocol"
    return None if packet.op in (1, 2) else "arp_operation"


def fault_of_ipv4(raw):
    if len(raw) < 20:
        return "ipv4_truncated"
    packet = inet.IP(raw[:20])
    if packet.version != 4:
        return "ipv4_version"
    if packet.ihl != 5:
        return "ipv4_header_length" if packet.ihl < 5 or packet.ihl * 4 > len(raw) else "any"
    if not 20 <= packet.len <= len(raw):
        return "ipv4_total_length"
    payload = packet.len - 20
    if packet.flags.MF or packet.frag:
        if payload == 0 or (packet.flags.MF and payload % 8):
            return "ipv4_fragment_size"
        if packet.frag * 8 + packet.len > 65535:
            return "ipv4_fragment_overrun"
    return None


def fault_of_ipv6(raw):
    if len(raw) < 40:
        return "ipv6_truncated"
    packet = inet6.IPv6(raw[:40])
    if packet.version != 6:
        return "ipv6_version"
    if packet.plen > len(raw) - 40:
        return "ipv6_payload_length"
    return "any" if packet.nh in (0, 43, 44, 60) else None


def fault_of_udp(raw):
    if len(raw) < 8:
        return "udp_truncated"
    packet = inet.UDP(raw[:8])
    return None if 8 <= packet.len <= len(raw) else "udp_length"


def fault_of_options(area, seen):
    """Of the bytes that Scapy has read as `seen`: as long as they are in order, in step."""
    at = 0
    for name, value in seen:
        if name == "EOL":
            return None
        if name == "NOP":
            at += 1
            continue
        # Scapy shows whatever is there, for who looks at broken segments: it takes 2 for a length
        # below it or missing, and what there is for one past the end. A stack must not (MUST-7).
        if at + 1 == len(area):
            return "tcp_option_overrun"
        size = area[at + 1]
        if size < 2:
            return "tcp_option_length"
        if at + size > len(area):
            return "tcp_option_overrun"
        # Values of a wrong size stay bytes to Scapy.
        if name in ("MSS", "WScale", "Timestamp") and isinstance(value, bytes):
            return "tcp_option_length"
        # But SACK-permitted may be of any size there, and SACK blocks halves (RFC 2018, 2 and 3).
        if name == "SAckOK" and size != 2:
            return "tcp_option_length"
        if name == "SAck" and (size == 2 or (size - 2) % 8 != 0):
            return "tcp_option_length"
        at += size
    return None


def fault_of_tcp(raw):
    ip, segment = split_tcp(raw)
    if len(segment) < 20:
        return "tcp_truncated"
    if tcp_checksum(ip / bytes(segment)) != 0:
        return "tcp_checksum"
    packet = inet.TCP(segment)
    size = packet.dataofs * 4
    # Scapy takes 5 for less than 5, and what there is for more than there is.
    if not 20 <= size <= len(segment):
        return "tcp_header_length"
    # To Scapy all ports and flags are alike. No stack has port 0, nor sends a SYN that ends.
    if 0 in (packet.sport, packet.dport):
        return "tcp_port"
    if packet.flags.S and (packet.flags.F or packet.flags.R):
        return "tcp_flags"
    return fault_of_options(segment[20:size], packet.options)


def ask(lines):
    """Our answers, a line each."""
    done = subprocess.run(
        [PROGRAM],
        input="".join(line + "\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.splitlines()


@unittest.skipIf(inet is None, "no python3-scapy")
class ScapyOracle(unittest.TestCase):
    KINDS = {
        "arp": fields_of_arp,
        "ethernet": fields_of_ethernet,
        "ipv4": fields_of_ipv4,
        "ipv6": fields_of_ipv6,
        "ndp": fields_of_ndp,
        "tcp": fields_of_tcp,
        "udp": fields_of_udp,
    }
    FAULTS = {
        "arp": fault_of_arp,
        "ipv4": fault_of_ipv4,
        "ipv6": fault_of_ipv6,
        "udp": fault_of_udp,
    }

    def compare(self, lines, wanted):
        answers = ask(lines)
        self.assertEqual(len(answers), len(wanted))
        for line, answer, want in zip(lines, answers, wanted):
            self.assertEqual(answer, want, f"{line}\nreplay with PINION_SEED={SEED}")

    def test_reads_what_scapy_builds(self):
        for kind, fields in self.KINDS.items():
            draw = Draw(f"{SEED} {kind}")
            packets = [bytes(getattr(draw, kind)()) for _ in range(ROUNDS)]
            lines = [f"parse {kind} {raw.hex()}" for raw in packets]
            self.compare(lines, [line_of(fields(raw)) for raw in packets])

    def test_builds_what_scapy_builds(self):
        sizes = {"arp": 28, "ethernet": 14, "ipv6": 40, "ndp": 32, "udp": 8}
        for kind, fields in self.KINDS.items():
            draw = Draw(f"{SEED} build {kind}")
            plain = {"tcp": {"ours": True}}.get(kind, {})
            packets = [bytes(getattr(draw, kind)(**plain)) for _ in range(ROUNDS)]
            if kind == "ethernet":  # tags are for reading: wire_oracle takes none
                packets = [raw for raw in packets if raw[12:14] not in (b"\x81\0", b"\x88\xa8")]
            lines = [f"emit {kind} {line_of(fields(raw))}" for raw in packets]
            if kind == "tcp":  # without the header in front, with the data and their checksum
                heads = [split_tcp(raw)[1].hex() for raw in packets]
            else:
                heads = [raw[: sizes.get(kind) or (raw[0] & 15) * 4].hex() for raw in packets]
            self.compare(lines, heads)

    def test_refuses_what_is_spoilt_for_the_reason_that_scapy_shows(self):
        for kind, fault in self.FAULTS.items():
            draw = Draw(f"{SEED} spoil {kind}")
            plain = {"ipv4": {"options": False}, "ipv6": {"extensions": False}}.get(kind, {})
            lines, wanted = [], []
            for _ in range(ROUNDS):
                raw = bytearray(bytes(getattr(draw, kind)(**plain)))
                for _ in range(draw.below(3)):
                    raw[draw.below(8)] = draw.below(256)
                raw = bytes(raw[: draw.below(len(raw) + 1)] if draw.below(4) == 0 else raw)
                reason = fault(raw)
                if reason == "any":  # has become one with options or extensions
                    continue
                lines.append(f"parse {kind} {raw.hex()}")
                wanted.append(f"fault {reason}" if reason else line_of(self.KINDS[kind](raw)))
            self.compare(lines, wanted)

    def test_refuses_segments_as_a_stack_must(self):
        draw = Draw(f"{SEED} spoil tcp")
        lines, wanted, reasons = [], [], set()
        for _ in range(8 * ROUNDS):
            raw = draw.spoilt_tcp()
            reason = fault_of_tcp(raw)
            reasons.add(reason)
            lines.append(f"parse tcp {raw.hex()}")
            wanted.append(f"fault {reason}" if reason else line_of(fields_of_tcp(raw)))
        self.compare(lines, wanted)
        self.assertEqual(len(reasons), 8, f"{reasons}\nreplay with PINION_SEED={SEED}")

    def test_scapy_reads_what_we_build(self):
        draw = Draw(f"{SEED} ours tcp")
        packets = [bytes(draw.tcp(ours=True)) for _ in range(ROUNDS)]
        built = ask([f"emit tcp {line_of(fields_of_tcp(raw))}" for raw in packets])
        for raw, segment in zip(packets, built):
            ours = bytes(split_tcp(raw)[0] / bytes.fromhex(segment))
            seed = f"replay with PINION_SEED={SEED}"
            self.assertEqual(fields_of_tcp(ours), fields_of_tcp(raw), seed)
            ip, read = split_tcp(ours)
            self.assertEqual(tcp_checksum(ip / bytes(read)), 0, seed)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    tap.main()
