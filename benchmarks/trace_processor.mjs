// Loads a JSON trace into Perfetto's trace_processor (the wasm of its user interface) under node, and says what it holds.
//
//     node trace_processor.mjs WEB_DIST/vNN TRACE [SQL…]
//
// The engine's bundle is written for a browser's worker, so it is given one: a `self`, an XMLHttpRequest that
// reads the file beside it, and a port. The messages are perfetto's TraceProcessorRpcStream (protos/perfetto/trace_processor).
import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { basename, join } from "node:path";

const CHUNK_BYTES = 32 << 20;
const APPEND = 1, FINALIZE = 2, QUERY = 3; // TraceProcessorMethod
const REQUEST = 2, APPEND_ARGS = 101, QUERY_ARGS = 103, FATAL = 5, APPEND_RESULT = 201, QUERY_RESULT = 203, FINALIZE_RESULT = 212;
const SLICES = "select count(*) as slices, sum(dur) as dur_ns, min(ts) as first_ns, max(ts + dur) as last_ns from slice";

const [folder, trace, ...queries] = process.argv.slice(2);
const port = await engine(folder);
const started = performance.now();
load(trace);
const loaded = performance.now();
const answers = (queries.length ? queries : [SLICES]).map(query);
const lost = query("select name, value from stats where severity in ('error', 'data_loss') and value > 0");
console.log(JSON.stringify({ load_s: (loaded - started) / 1000, query_s: (performance.now() - loaded) / 1000, answers, lost }));

/** Start the engine in a pretended worker; its port takes one request at a time and answers before it returns. */
async function engine(folder) {
  const replies = [];
  const port = { postMessage: (bytes) => replies.push(bytes) };
  const self = { location: { href: "https://localhost/engine_bundle.js" } };
  class XMLHttpRequest {
    open(_method, url) {
      this.response = readFileSync(join(folder, basename(url)));
    }
    send() {}
  }
  const names = ["self", "XMLHttpRequest", "WorkerGlobalScope", "process", "window", "document"]; // the last: hidden
  new Function(...names, readFileSync(join(folder, "engine_bundle.js"), "utf8"))(self, XMLHttpRequest, Object);
  await new Promise(setImmediate); // it readies itself in a microtask
  self.onmessage({ data: port });
  let sequence = 0;
  return (method, field, payload) => {
    replies.length = 0;
    const parts = [varint(1, sequence++), varint(REQUEST, method)];
    if (payload) parts.push(blob(field, payload));
    port.onmessage({ data: new Uint8Array(blob(1, Buffer.concat(parts))) });
    return replies.flatMap((reply) => fields(reply)).map(([, body]) => checked(new Map(fields(body))));
  };
}

function checked(reply) {
  if (reply.has(FATAL)) throw new Error(reply.get(FATAL).toString());
  for (const field of [APPEND_RESULT, QUERY_RESULT, FINALIZE_RESULT]) {
    const error = reply.has(field) && new Map(fields(reply.get(field))).get(field === FINALIZE_RESULT ? 1 : 2);
    if (Buffer.isBuffer(error)) throw new Error(error.toString());
  }
  return reply;
}

function load(path) {
  const file = openSync(path);
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (let size; (size = readSync(file, chunk)) > 0; ) port(APPEND, APPEND_ARGS, chunk.subarray(0, size));
  closeSync(file);
  port(FINALIZE);
}

/** Ask a question whose answer is small: rows as objects. */
function query(text) {
  const columns = [], cells = [];
  for (const reply of port(QUERY, QUERY_ARGS, blob(1, Buffer.from(text)))) {
    for (const [field, value] of fields(reply.get(QUERY_RESULT) ?? Buffer.alloc(0))) {
      if (field === 1) columns.push(value.toString());
      if (field === 3) cells.push(...batch(new Map(fields(value))));
    }
  }
  const rows = [];
  while (cells.length) rows.push(Object.fromEntries(columns.map((name) => [name, cells.shift()])));
  return rows;
}

function* batch(parts) {
  const integers = packed(parts.get(2)), doubles = parts.get(3);
  const texts = (parts.get(5) ?? "").toString().split("\0");
  let double = 0;
  for (const kind of packed(parts.get(1))) {
    if (kind === 2n) yield Number(BigInt.asIntN(64, integers.shift()));
    else if (kind === 3n) yield doubles.readDoubleLE(8 * double++);
    else if (kind === 4n) yield texts.shift();
    else yield null;
  }
}

// ---- protobuf ----

function number(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}

function varint(field, value) {
  return Buffer.concat([number(field * 8), number(value)]);
}

function blob(field, payload) {
  return Buffer.concat([number(field * 8 + 2), number(payload.length), payload]);
}

function packed(bytes) {
  const values = [];
  for (let at = 0, value; at < (bytes?.length ?? 0); values.push(value)) [value, at] = read(bytes, at);
  return values;
}

function read(bytes, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    value |= BigInt(bytes[at] & 127) << shift;
    if (bytes[at++] < 128) return [value, at];
  }
}

function fields(given) {
  const bytes = Buffer.from(given.buffer, given.byteOffset, given.length);
  const found = [];
  for (let at = 0, key, value; at < bytes.length; ) {
    [key, at] = read(bytes, at);
    const wire = Number(key & 7n);
    if (wire === 0) [value, at] = read(bytes, at);
    else {
      let size = wire === 1 ? 8n : 4n;
      if (wire === 2) [size, at] = read(bytes, at);
      value = bytes.subarray(at, (at += Number(size)));
    }
    found.push([Number(key >> 3n), value]);
  }
  return found;
}
