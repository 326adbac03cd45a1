#!/usr/bin/env python3
"""An independent reader of traces, written from docs/format.md.

Usage: read_trace.py TRACE [--files]

Prints one JSON object per event, in the order of the trace, and then one per file of the manifest
and of those from which the kernel copied; with --files these alone. Exits 0 when the trace was ended, 1
when it is cut off or damaged (what can be read is printed all the same), 2 when it is no trace.

Needs nothing but Python, zstd-compressed traces excepted: for those, one of the modules
compression.zstd (Python 3.14) or zstandard, or the command zstd.
"""

import base64
import heapq
import json
import struct
import subprocess
import sys
import zlib

FILE_MAGIC = b"\x89RNT\r\n\x1a\n"
BLOCK_MAGIC = b"\xb1RNB"
HEAD = struct.Struct("<4sBBHIIQIIQQIIQQII")
PREAMBLE, EVENTS, DATA, INDEX, END, MANIFEST, SOURCES = range(1, 8)
SHAPE, ARGS, RET, UNFINISHED, HAS_DATA, IDENTITIES, PARTS = (1 << bit for bit in range(7))
MASK = (1 << 64) - 1


# From here on, numbers are those of further streams of the recorder.
RECORDER_STREAM = 3 << 30


class Damaged(Exception):
    """The trace does not say what it should."""


def to_signed(value):
    return value - (1 << 64) if value >> 63 else value


def unpack_zstd(stored, raw_len):
    try:
        from compression import zstd
        return zstd.decompress(stored)
    except ImportError:
        pass
    try:
        import zstandard
        return zstandard.ZstdDecompressor().decompress(stored, max_output_size=raw_len)
    except ImportError:
        pass
    command = ["zstd", "--decompress", "--stdout", "--quiet"]
    return subprocess.run(command, input=stored, stdout=subprocess.PIPE, check=True).stdout


def unpack_lz4(stored):
    out = bytearray()
    at = 0

    def length(nibble, at):
        if nibble == 15:
            while True:
                nibble += stored[at]
                at += 1
                if stored[at - 1] != 255:
                    break
        return nibble, at

    while at < len(stored):
        token = stored[at]
        literals, at = length(token >> 4, at + 1)
        out += stored[at:at + literals]
        at += literals
        if at >= len(stored):
            break
        distance = stored[at] | stored[at + 1] << 8
        match, at = length(token & 15, at + 2)
        for _ in range(match + 4):
            out.append(out[-distance])
    return bytes(out)


class Payload:
    """Takes numbers out of bytes."""

    def __init__(self, raw):
        self.raw = raw
        self.at = 0

    def take(self, count):
        if self.at + count > len(self.raw):
            raise Damaged("a payload ends too early")
        self.at += count
        return self.raw[self.at - count:self.at]

    def u8(self):
        return self.take(1)[0]

    def number(self):
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def signed(self):
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def delta(self, start):
        return (start + self.signed()) & MASK

    def bytes(self):
        return self.take(self.number())

    def list(self, element):
        return [element() for _ in range(self.number())]


class Block:
    """A head, and access to its payload."""

    def __init__(self, file, offset):
        fields = HEAD.unpack_from(file, offset)
        (magic, self.kind, self.codec, _, self.raw_len, self.stored_len, self.offset, self.crc,
         self.thread, self.first, self.first_call, self.count, self.calls, self.first_tsc,
         self.last_tsc, _, head_crc) = fields
        if magic != BLOCK_MAGIC or self.offset != offset:
            raise Damaged("no block begins here")
        if zlib.crc32(file[offset:offset + HEAD.size - 4]) != head_crc:
            raise Damaged("the head's checksum is wrong")
        self.end = offset + HEAD.size + self.stored_len
        if self.end > len(file):
            raise Damaged("the block is cut off")
        self.file = file

    def payload(self):
        stored = self.file[self.offset + HEAD.size:self.end]
        if zlib.crc32(stored) != self.crc:
            raise Damaged("the payload's checksum is wrong")
        if self.codec == 1:
            stored = unpack_zstd(stored, self.raw_len)
        elif self.codec == 2:
            stored = unpack_lz4(stored)
        elif self.codec != 0:
            raise Damaged("the codec is unknown")
        if len(stored) != self.raw_len:
            raise Damaged("the payload has another length")
        return stored


class Trace:
    """A file, read from head to head."""

    def __init__(self, file):
        if file[:8] != FILE_MAGIC or struct.unpack_from("<I", file, 8)[0] not in (1, 2):
            print("this is no trace of version 1 or 2", file=sys.stderr)
            sys.exit(2)
        self.version = struct.unpack_from("<I", file, 8)[0]
        self.problem = None
        self.threads = {}
        self.data = []
        self.manifest = []
        self.sources = []
        self.end = None
        offset = 16
        try:
            first = Block(file, offset)
            self.read_preamble(Payload(first.payload()))
            offset = first.end
            while self.end is None:
                if offset + HEAD.size > len(file):
                    raise Damaged("the trace was not ended")
                block = Block(file, offset)
                self.add(block)
                offset = block.end
        except Damaged as damage:
            self.problem = f"byte {offset}: {damage}"
        measured = self.end[17] if self.end else 0
        self.hz = measured or self.hz or 1
        self.recent = (None, b"", [])

    def read_preamble(self, payload):
        payload.list(payload.bytes)
        for _ in range(4):
            payload.bytes()
        for _ in range(3):
            payload.number()
        payload.list(payload.bytes)
        payload.number()
        payload.number()
        self.epoch_tsc = payload.number()
        self.hz = payload.number()

    def add(self, block):
        if block.kind == EVENTS:
            self.threads.setdefault(block.thread, []).append(block)
        elif block.kind == DATA:
            self.data.append(block)
        elif block.kind == MANIFEST:
            self.manifest.append(block)
        elif block.kind == SOURCES:
            self.sources.append(block)
        elif block.kind == END:
            payload = Payload(block.payload())
            self.end = [payload.number() for _ in range(19)]

    def ns(self, tsc):
        ns = abs(tsc - self.epoch_tsc) * 10**9 // self.hz
        return ns if tsc >= self.epoch_tsc else -ns

    def blob(self, number):
        """Bytes and hash of a buffer."""
        block, raw, places = self.recent
        if block is None or not block.first <= number < block.first + block.count:
            found = [b for b in self.data if b.first <= number < b.first + b.count]
            if not found:
                raise Damaged(f"there is no buffer {number}")
            block = found[0]
            raw, places, at = block.payload(), [], block.count * 20
            for entry in range(block.count):
                length, low, high = struct.unpack_from("<IQQ", raw, entry * 20)
                places.append((at, at + length, high << 64 | low))
                at += length
            self.recent = (block, raw, places)
        start, end, digest = places[number - block.first]
        return raw[start:end], digest

    def events(self):
        """All events in order, each as (time stamp, thread, event)."""
        streams = (self.thread_events(thread) for thread in self.threads)
        return heapq.merge(*streams, key=lambda event: event[:2])

    def files(self):
        """The entries of the manifest, and what is said of the whole."""
        number, last = 0, b""
        for block in self.manifest:
            payload = Payload(block.payload())
            ending = None
            if payload.u8():
                ending = {"scope": payload.number(), "left_out": payload.number()}
            if block.first != number:
                raise Damaged("entries of the manifest are missing")
            number += block.count
            for _ in range(block.count):
                entry = file_of(payload)
                if number > 1 and entry["path"] <= last:
                    raise Damaged("the paths of the manifest do not ascend")
                last = entry["path"]
                entry["path"] = base64.b64encode(last).decode()
                yield {"type": "file", **entry}
            if ending:
                yield {"type": "manifest", **ending}
        for block in self.sources:
            payload = Payload(block.payload())
            for _ in range(block.count):
                yield {"type": "source", **self.source_of(payload)}

    def source_of(self, payload):
        """What a file held from which the kernel copied."""
        text = lambda: base64.b64encode(payload.bytes()).decode()
        source = {"path": text(), "names": payload.list(text), "fate": payload.number(), "pieces": []}
        for _ in range(payload.number()):
            piece = {"offset": payload.number(), "len": payload.number(), "hash": payload.bytes().hex()}
            blobs = payload.list(payload.number)
            piece["bytes"] = base64.b64encode(b"".join(self.blob(blob)[0] for blob in blobs)).decode()
            source["pieces"].append(piece)
        return source

    def thread_events(self, thread):
        event = call = 0
        for block in self.threads[thread]:
            if (block.first, block.first_call) != (event, call):
                self.problem = f"byte {block.offset}: events of thread {thread} are missing"
            event, call = block.first + block.count, block.first_call + block.calls
            try:
                by = 0 if thread >= RECORDER_STREAM else thread
                yield from ((tsc, by, event) for tsc, event in Events(block, self.version))
            except Damaged as damage:
                self.problem = f"byte {block.offset}: {damage}"


def file_of(payload):
    """An entry of the manifest."""
    entry = {"path": payload.bytes(), "kind": payload.number()}
    if entry["kind"] in (0, 8):
        return entry
    for name in ["mode", "uid", "gid", "nlink", "size", "rdev", "same", "content"]:
        entry[name] = payload.number()
    if entry["content"] == 1:
        entry["hash"] = payload.bytes().hex()
        entry["piece_bytes"] = payload.number()
        entry["pieces"] = payload.bytes().hex()
    entry["target"] = base64.b64encode(payload.bytes()).decode()
    xattrs = payload.list(lambda: (payload.bytes(), payload.bytes()))
    entry["xattrs"] = {base64.b64encode(name).decode(): value.hex() for name, value in xattrs}
    return entry


class Events:
    """The events of one block, each as (time stamp, event)."""

    def __init__(self, block, version):
        self.payload = Payload(block.payload())
        self.version = version
        self.count = block.count
        self.slots = {}
        self.clock = block.first_tsc
        self.last_site = self.last_blob = 0

    def __iter__(self):
        for _ in range(self.count):
            tag = self.payload.u8()
            yield self.call(tag) if tag < 0x80 else self.other(tag)
        if self.payload.at != len(self.payload.raw):
            raise Damaged("bytes follow the last event")

    def call(self, tag):
        payload = self.payload
        slot = self.slots.setdefault(payload.u8(), [0, 0, 0, 0, [0] * 6, 0])
        enter = payload.delta(self.clock)
        if tag & SHAPE:
            slot[0:3] = payload.number(), payload.u8(), payload.u8()
            slot[3] = self.last_site = payload.delta(self.last_site)
        if tag & ARGS:
            mask = payload.u8()
            for i in range(6):
                if mask >> i & 1:
                    slot[4][i] = payload.delta(slot[4][i])
        leave = None
        if not tag & UNFINISHED:
            leave = (enter + payload.number()) & MASK
        if tag & RET:
            slot[5] = payload.delta(slot[5])
        self.clock = enter if leave is None else leave
        nr, flags, nargs, site, args, ret = slot
        event = {
            "type": "call",
            "nr": nr,
            "flags": flags,
            "site": site,
            "args": args[:nargs],
            "ret": None if leave is None else to_signed(ret),
            "leave": leave,
            "data": payload.list(self.item) if tag & HAS_DATA else [],
            "files": payload.list(self.identity) if tag & IDENTITIES else [],
        }
        self.add_parts(tag, event)
        return enter, event

    def add_parts(self, tag, event):
        """The optional parts of an event: each its id and its value."""
        if not tag & PARTS:
            return
        payload = Payload(self.payload.bytes())
        event["parts"] = []
        while payload.at < len(payload.raw):
            key = payload.number()
            value = payload.number()
            if key & 1:
                value = base64.b64encode(payload.take(value)).decode()
            event["parts"].append([key >> 1, value])

    def identity(self):
        payload = self.payload
        names = ["dev", "ino", "mode", "nlink", "uid", "gid", "size", "rdev"]
        file = {"arg": payload.u8()}
        file.update((name, payload.number()) for name in names)
        file["mtime_ns"] = payload.signed()
        return file

    def item(self):
        payload = self.payload
        first, second = payload.u8(), payload.u8()
        arg, part, how = first & 7, first >> 3 & 7, first >> 6
        if arg == 6:
            arg = 254
        elif arg == 7:
            arg = payload.u8()
        if part == 7:
            part = payload.u8()
        flags = payload.u8() if second & 0x10 else second & 15
        index = payload.number() if second & 0x20 else 0
        length = payload.number()
        stored = payload.number() if second & 0x40 else length
        digest = int.from_bytes(payload.take(16), "little") if second & 0x80 else None
        inline, blobs = b"", []
        if how == 1:
            inline = payload.take(stored)
        elif how == 2:
            blobs = [self.blob()]
        elif how == 3:
            blobs = payload.list(self.blob)
        return {
            "arg": arg, "part": part, "index": index, "flags": flags, "len": length,
            "hash": digest, "stored": stored if how else 0, "inline": inline, "blobs": blobs,
        }

    def blob(self):
        self.last_blob = self.payload.delta(self.last_blob)
        return self.last_blob

    def other(self, tag):
        tsc = self.clock = self.payload.delta(self.clock)
        if self.version == 1:
            number, cut = (7, True) if tag == 0x89 else (tag & 0x7F, False)
            event = self.body(number)
            if event is None:
                raise Damaged(f"an event has the unknown tag {tag}")
            if cut:
                event["fds_left_out"] = self.payload.number()
            return tsc, event
        number = tag & 0x3F
        whole, last_blob = self.payload, self.last_blob
        self.payload, self.last_blob = Payload(whole.bytes()), 0
        # None: it is of a later version.
        event = self.body(number) or {"type": "unknown", "number": number}
        if number == 7 and (left_out := self.payload.number()):
            event["fds_left_out"] = left_out
        self.payload, self.last_blob = whole, last_blob
        self.add_parts(tag, event)
        return tsc, event

    def body(self, number):
        payload = self.payload
        if number == 1:
            event = {"type": "signal", "signal": payload.u8(), "handler": payload.number()}
            event["info"] = base64.b64encode(payload.take(48)).decode()
        elif number == 2:
            event = {"type": "start", "how": payload.u8()}
            for name in ["process", "parent", "new_pid", "new_tid"]:
                event[name] = payload.number()
        elif number == 3:
            event = {"type": "image", "new_tid": payload.number()}
            event["data"] = payload.list(self.item)
        elif number == 4:
            event = {"type": "end", "calls": payload.number()}
        elif number == 5:
            event = {"type": "stall", "ns": payload.number()}
        elif number == 6:
            event = {"type": "gap", "why": payload.u8(), "detail": payload.number()}
            event["text"] = payload.bytes().decode()
        elif number == 7:
            event = self.state()
        elif number == 8:
            event = {"type": "exit", "process": payload.number()}
            event["status"] = payload.signed() if payload.u8() else None
        elif number == 20:
            event = {"type": "kernel_layout", "layout": payload.number()}
            event["system"] = payload.bytes().decode()
            event["event"] = payload.bytes().decode()
            whole, self.payload = payload, Payload(payload.bytes())
            event["fields"] = self.payload.list(self.kernel_field)
            self.payload = whole
        elif number == 21:
            event = {"type": "kernel"}
            for name in ["layout", "task", "flags"]:
                event[name] = payload.number()
            event["values"] = base64.b64encode(payload.bytes()).decode()
        else:
            return None
        return event

    def kernel_field(self):
        payload = self.payload
        words = [payload.bytes().decode(), payload.bytes().decode()]
        return words + [payload.number(), payload.number()]

    def state(self):
        payload = self.payload

        def path():
            return base64.b64encode(payload.bytes()).decode()

        event = {"type": "state"}
        event.update((name, payload.number()) for name in ["process", "host_pid", "host_ppid"])
        event.update((name, path()) for name in ["exe", "cwd", "root"])
        event["uids"] = [payload.number() for _ in range(4)]
        event["gids"] = [payload.number() for _ in range(4)]
        event["groups"] = payload.list(payload.number)
        event.update((name, payload.number()) for name in ["umask", "sig_blocked", "sig_ignored"])
        event["limits"] = payload.list(lambda: [payload.number(), payload.number()])
        event["fds"] = payload.list(
            lambda: [payload.signed(), path(), payload.number(), payload.number()])
        return event


def data_object(trace, item):
    """An item with its bytes."""
    blobs = [trace.blob(number) for number in item.pop("blobs")]
    content = item.pop("inline") + b"".join(bytes for bytes, _ in blobs)
    if len(content) != item.pop("stored"):
        raise Damaged("a buffer has another length than its event says")
    digest = item["hash"]
    if digest is None and len(blobs) == 1 and len(content) == item["len"]:
        digest = blobs[0][1]
    item["hash"] = None if digest is None else f"{digest:032x}"
    item["base64"] = base64.b64encode(content).decode()
    return item


def print_line(line):
    print(json.dumps(line, separators=(",", ":")))


def print_events(trace):
    ids = {}
    seq = 0
    for tsc, thread, event in trace.events():
        if event["type"] == "start":
            ids[thread] = (event["new_pid"], event["new_tid"])
        elif event["type"] == "image" and thread in ids:
            ids[thread] = (ids[thread][0], event["new_tid"])
        pid, tid = ids.get(thread, (None, None))
        line = {"type": event.pop("type"), "thread": thread, "pid": pid, "tid": tid}
        line["enter_ns"] = trace.ns(tsc)
        if line["type"] == "call":
            leave = event.pop("leave")
            line["exit_ns"] = None if leave is None else trace.ns(leave)
            line["seq"] = seq
            seq += 1
        line.update(event)
        if "data" in line:
            try:
                line["data"] = [data_object(trace, item) for item in line["data"]]
            except Damaged as damage:
                trace.problem = str(damage)
                line["data"] = None
        print_line(line)


def main():
    with open(sys.argv[1], "rb") as file:
        trace = Trace(file.read())
    if sys.argv[2:] != ["--files"]:
        print_events(trace)
    try:
        for line in trace.files():
            print_line(line)
    except Damaged as damage:
        trace.problem = trace.problem or str(damage)
    if trace.problem:
        print(trace.problem, file=sys.stderr)
        sys.exit(1)


main()
