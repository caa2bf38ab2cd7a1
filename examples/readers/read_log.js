// Read and follow a log of binlog, with Node's standard library alone: copy this file into your program.
//
//   node read_log.js [-f] DIR [FILE:OFFSET]
//
// It prints a line for each record: its ref, the ref after it, and the record in base64.  To resume later, pass the
// last ref of the second column; pass only refs that a reader has printed.  With -f it follows the log, and reads the
// header again every 100 ms.  (binlog.Reader, in Python, does not poll: writers wake it.)  It does not read archives
// (00000001.dat.zst), and ends with an error if it finds one.  docs/format.md describes the bytes.
'use strict';
const fs = require('fs');
const path = require('path');
const { setTimeout } = require('timers/promises');

const MAGIC = 'BINLOG\x00\x01';
const RECORD_BYTES_MAX = 64 << 20;

const CRC_TABLE = Array.from({ length: 256 }, (_, crc) => {
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc;
});

/** Return the CRC-32C of some parts of a header; each part is [begin, end]. */
function crc32c(data, ...parts) {
  let crc = 0xffffffff;
  for (const [begin, end] of parts) {
    for (let at = begin; at < end; at++) crc = CRC_TABLE[(crc ^ data[at]) & 255] ^ (crc >>> 8);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

/** Read `size` bytes at an offset; fewer at the end of the file. */
function readAt(fd, offset, size) {
  const data = Buffer.alloc(size);
  let count = 0;
  for (let read = 1; read > 0 && count < size; count += read) {
    read = fs.readSync(fd, data, count, size - count, offset + count);
  }
  return data.subarray(0, count);
}

/** Return the header of a file.  Writers may be writing it, so two consecutive reads must agree. */
function readHeader(fd, file, number) {
  let data = readAt(fd, 0, 256);
  for (let before = null; before === null || !data.equals(before); data = readAt(fd, 0, 256)) before = data;
  const refuse = (why) => {
    throw new Error(`${file}: ${why}`);
  };
  if (data.length < 248) refuse('the header is incomplete');
  if (data.readUInt32BE(0) !== 252 || data.readUInt16BE(4) !== 1) refuse('not a log file of version 1');
  if (data.readUInt32BE(16) !== number) refuse('its header has another number');
  const u64 = (offset) => Number(data.readBigUInt64BE(offset));
  const header = { closed: data.readUInt16BE(6) === 1, first: 256, tail: u64(8), sequence: null, nextSequence: null };
  if (data.subarray(24, 248).every((byte) => byte === 0)) return { ...header, first: 248 }; // another program's file
  if (data.toString('latin1', 24, 32) !== MAGIC) refuse('this reader does not know the layout of the header');
  const identity = crc32c(data, [0, 6], [16, 20], [24, 64]);
  const live = crc32c(data, [32, 48], [16, 20], [64, 124]);
  if (data.readUInt32BE(132) !== identity || data.readUInt32BE(124) !== live || header.tail < u64(64)) {
    refuse('the header is damaged; run binlog check');
  }
  return { ...header, sequence: u64(48), nextSequence: u64(48) + u64(72) };
}

/** Return the number and the path of a file, or of the oldest one if number is 0; null if it does not exist yet. */
function find(dir, number) {
  // Sorted, so a file comes before its archive.
  const names = fs.readdirSync(dir).filter((name) => /^[0-9]{8}\.dat(\.zst)?$/.test(name)).sort();
  const name = names.find((each) => parseInt(each, 10) >= number);
  if (name === undefined) return null;
  const file = path.join(dir, name);
  if (number && parseInt(name, 10) > number) {
    throw new Error(`${file}: the file before it is missing; retention may have removed it`);
  }
  if (name.endsWith('.zst')) throw new Error(`${file}: this reader reads no archives; zstd -d restores the file`);
  return { number: parseInt(name, 10), file };
}

/** Yield the records of a file from an offset to its tail, each with its ref and the ref after it. */
function* readRecords(fd, file, number, offset, tail) {
  while (offset < tail) {
    const word = readAt(fd, offset, 4);
    const end = word.length === 4 ? offset + 4 + word.readUInt32BE(0) : Infinity;
    const record = end <= Math.min(tail, offset + 4 + RECORD_BYTES_MAX) && readAt(fd, offset + 4, end - offset - 4);
    if (!record || offset + 4 + record.length !== end) {
      throw new Error(`${file}: damaged at ${offset}, or a record of more than 64 MiB`);
    }
    yield { ref: `${number}:${offset}`, next: `${number}:${end}`, record };
    offset = end;
  }
}

/**
 * Yield each record of a log from number:offset on; if number is 0, from the oldest record on.
 * If follow is true, wait for more records, and end only with an error.
 */
async function* readLog(dir, { number = 0, offset = 0, follow = false } = {}) {
  let nextSequence = null; // of the file before this one
  for (;;) {
    const found = find(dir, number);
    if (found === null && !follow) return;
    if (found === null) {
      await setTimeout(100);
      continue;
    }
    const fd = fs.openSync(found.file, 'r');
    try {
      for (;;) {
        const header = readHeader(fd, found.file, found.number);
        if (nextSequence !== null && header.sequence > nextSequence) {
          throw new Error(`${found.file}: records are missing before this file`);
        }
        offset = Math.max(offset, header.first);
        if (offset > header.tail) throw new Error(`${found.file}: the file ends before ${offset}`);
        if (offset < header.tail) {
          yield* readRecords(fd, found.file, found.number, offset, header.tail);
          offset = header.tail;
        } else if (header.closed) {
          nextSequence = header.nextSequence;
          break;
        } else if (follow) {
          await setTimeout(100);
        } else {
          return;
        }
      }
    } finally {
      fs.closeSync(fd);
    }
    number = found.number + 1;
    offset = 0;
  }
}

async function main() {
  let words = process.argv.slice(2);
  const follow = words[0] === '-f';
  if (follow) words = words.slice(1);
  const ref = /^([0-9]+):([0-9]+)$/.exec(words[1] ?? '0:0');
  if (words.length < 1 || words.length > 2 || ref === null) {
    console.error('usage: read_log.js [-f] DIR [FILE:OFFSET]');
    process.exit(2);
  }
  for await (const each of readLog(words[0], { number: Number(ref[1]), offset: Number(ref[2]), follow })) {
    process.stdout.write(`${each.ref} ${each.next} ${each.record.toString('base64')}\n`);
  }
}

if (require.main === module) {
  main().catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}

module.exports = { readLog };
