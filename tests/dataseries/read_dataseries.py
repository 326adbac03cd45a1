"""Reads DataSeries files, with nothing but the standard library, and checks every sum in them.

Written from a description of the format, not from reenact's code, so that one can be held against
the other.
"""

import bz2
import struct
import xml.etree.ElementTree as xml
import zlib

LIBRARY = "DataSeries: XmlType"
INDEX = "DataSeries: ExtentIndex"
GOLDEN = 0x9E3779B9
MASK = 0xFFFFFFFF


class Damaged(Exception):
    pass


def check(condition, offset, what):
    if not condition:
        raise Damaged(f"at byte {offset}: {what}")


def pad4(n):
    return -n % 4 + n


def mix(a, b, c):
    a = (a - b - c & MASK) ^ c >> 13
    b = (b - c - a & MASK) ^ a << 8 & MASK
    c = (c - a - b & MASK) ^ b >> 13
    a = (a - b - c & MASK) ^ c >> 12
    b = (b - c - a & MASK) ^ a << 16 & MASK
    c = (c - a - b & MASK) ^ b >> 5
    a = (a - b - c & MASK) ^ c >> 3
    b = (b - c - a & MASK) ^ a << 10 & MASK
    c = (c - a - b & MASK) ^ b >> 15
    return a, b, c


def jenkins(start, data):
    a = b = GOLDEN
    c = start
    whole = len(data) // 12 * 12
    for x, y, z in struct.iter_unpack("<III", data[:whole]):
        a, b, c = mix(a + x & MASK, b + y & MASK, c + z & MASK)
    rest = data[whole:]
    word = lambda piece: int.from_bytes(piece, "little")
    c = c + len(data) & MASK
    a, b = a + word(rest[:4]) & MASK, b + word(rest[4:8]) & MASK
    c = c + (word(rest[8:]) << 8) & MASK
    return mix(a, b, c)[2]


def lzf(packed, size):
    out = bytearray()
    at = 0
    while at < len(packed):
        control = packed[at]
        at += 1
        if control < 32:
            out += packed[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += packed[at]
            at += 1
        back = ((control & 31) << 8 | packed[at]) + 1
        at += 1
        for _ in range(length + 2):
            out.append(out[-back])
    return bytes(out)


UNPACK = {
    0: lambda packed, size: packed,
    2: lambda packed, size: zlib.decompress(packed),
    3: lambda packed, size: bz2.decompress(packed),
    4: lzf,
}
CODES = {"i": 4, "q": 8, "d": 8}


class Type:
    def __init__(self, text):
        root = xml.fromstring(text)
        self.text = text
        self.name = root.get("name")
        self.packing = {k: v for k, v in root.attrib.items() if k.startswith("pack_")}
        self.fields = [dict(node.attrib) for node in root]
        slots = []
        for field in self.fields:
            slots.append((field["name"], field["type"]))
            if field.get("opt_nullable") == "yes":
                slots.append((" " + field["name"], "bool"))
        self.place = {}
        bits = [name for name, kind in slots if kind == "bool"]
        for number, name in enumerate(bits):
            self.place[name] = (number // 8, number % 8)
        at = (len(bits) + 7) // 8

        def add(kinds, size):
            nonlocal at
            at = -(-at // size) * size
            for name, kind in slots:
                if kind in kinds:
                    self.place[name] = (at, None)
                    at += size

        add(["byte"], 1)
        add(["int32"], 4)
        add(["variable32"], 4)
        add(["int64", "double"], 8)
        self.size = at

    def record(self, order, fixed, variable, at):
        values = {}
        for field in self.fields:
            name, kind = field["name"], field["type"]
            place, bit = self.place[name]
            if " " + name in self.place:
                null, mask = self.place[" " + name]
                if fixed[at + null] >> mask & 1:
                    values[name] = None
                    continue
            if kind == "bool":
                values[name] = bool(fixed[at + place] >> bit & 1)
            elif kind == "byte":
                values[name] = fixed[at + place]
            elif kind == "variable32":
                (offset,) = struct.unpack_from(order + "i", fixed, at + place)
                (size,) = struct.unpack_from(order + "i", variable, offset)
                check(offset == 0 or (offset + 4) % 8 == 0, offset, "a value is not aligned")
                values[name] = variable[offset + 4 : offset + 4 + size]
            else:
                code = {"int32": "i", "int64": "q", "double": "d"}[kind]
                (values[name],) = struct.unpack_from(order + code, fixed, at + place)
        return values

    def plain(self):
        relative = any(k in f for f in self.fields for k in ("pack_relative", "pack_scale"))
        return not self.packing and not relative


class File:
    """All records of a file: `types` by name, `records` as (type's name, values) in file order."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        head = self.bytes[:40]
        check(head[:4] == b"DSv1", 0, "no DataSeries file")
        self.order = {b"\x78\x56\x34\x12": "<", b"\x12\x34\x56\x78": ">"}[head[4:8]]
        number, pi, infinity, nan = struct.unpack(self.order + "qddd", head[8:])
        check(number == 0x123456789ABCDEF0, 8, "the header's number")
        check(pi == 3.141592653589793 and infinity == float("inf") and nan != nan, 16, "header")
        self.types = {}
        for text in (
            f'<ExtentType name="{LIBRARY}"><field type="variable32" name="xmltype" /></ExtentType>',
            f'<ExtentType name="{INDEX}"><field type="int64" name="offset" />'
            '<field type="variable32" name="extenttype" /></ExtentType>',
        ):
            known = Type(text)
            self.types[known.name] = known
        self.records = []
        self.codes = set()
        self.chain = 0
        extents = []
        at = 40
        while self.bytes[at : at + 4] != b"\xff\xff\xff\xff":
            begin = at
            name, at = self.extent(at)
            extents.append((begin, name))
        self.tail(at, extents)

    def extent(self, begin):
        data, order = self.bytes, self.order
        fixed_size, variable_size, count, unpacked, adler, body = struct.unpack_from(
            order + "iiiiII", data, begin
        )
        codes = data[begin + 24 : begin + 26]
        size = data[begin + 26]
        check(data[begin + 27] == 0, begin, "the head's last byte")
        name = data[begin + 28 : begin + 28 + size].decode()
        at = begin + pad4(28 + size)
        fixed = data[at : at + fixed_size]
        then = at + pad4(fixed_size)
        variable = data[then : then + variable_size]
        end = then + pad4(variable_size)
        found = zlib.adler32(data[begin + 20 : end], zlib.adler32(data[begin : begin + 16]))
        check(found == adler, begin, f"the adler32 of an extent of {name}")
        kind = self.types[name]
        fixed = UNPACK[codes[0]](fixed, kind.size * count)
        variable = UNPACK[codes[1]](variable, unpacked - 4) if variable_size else b""
        variable = bytes(4) + variable
        check(len(variable) == unpacked, begin, f"the variable section of {name}")
        self.codes |= {codes[0], codes[1]}
        lengths = b""
        entry = 4
        while entry < len(variable):
            lengths += variable[entry : entry + 4]
            (length,) = struct.unpack_from(order + "i", variable, entry)
            entry += 4 + length + (12 - length % 8) % 8
        check(entry == len(variable), begin, f"the values of {name} do not fill their section")
        value = jenkins(jenkins(1972, fixed), variable)
        whole = len(lengths) // 4096 * 4096
        for group in range(0, whole, 4096):
            value = jenkins(value, lengths[group : group + 4096])
        value = jenkins(value, lengths[whole:])
        check(value == body, begin, f"the hash of an extent of {name}")
        self.chain = mix(body ^ adler, self.chain, 1972)[2]
        if kind.plain():
            check(len(fixed) == kind.size * count, begin, f"the fixed section of {name}")
            for number in range(count):
                values = kind.record(order, fixed, variable, number * kind.size)
                if name == LIBRARY:
                    known = Type(values["xmltype"].decode())
                    self.types[known.name] = known
                self.records.append((name, values))
        return name, end

    def tail(self, at, extents):
        tail = self.bytes[at:]
        check(len(tail) == 28, at, "the tail has not 28 bytes")
        _, packed, inverse, chain, index, sum = struct.unpack(self.order + "IIIIqI", tail)
        check(packed ^ inverse == MASK, at, "the size of the index")
        check(index + packed == at and extents[-1] == (index, INDEX), at, "where the index is")
        check(sum == jenkins(1776, tail[:24]), at, "the hash of the tail")
        self.chain_matches = chain == self.chain
        told = [(r["offset"], r["extenttype"].decode()) for n, r in self.records if n == INDEX]
        check(told == extents, at, "the index tells of other extents")
