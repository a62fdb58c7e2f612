// Inflates gzip at once (RFC 1951 and 1952). The browser's own DecompressionStream is faster, but says nothing before the page has
// been loaded, so small documents are inflated here.

/** A Huffman code: how many codes have each length, and the symbols in the order of their codes. */
interface Code {
  counts: Uint16Array;
  symbols: Uint16Array;
}

const LENGTH_BASE = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCE_BASE = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577];
const DISTANCE_BITS = [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];
/** The order in which the lengths of the codes of lengths are stored. */
const LENGTH_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/** A code has at most this number of bits. */
const MOST_BITS = 15;

/** Bytes of the header of gzip, which has no optional parts here, and of its end: CRC and size. */
const HEADER = 10;
const TRAILER = 8;

/** Deflate makes no more than this of a byte. */
const MOST_EXPANSION = 1032;

function codeOf(lengths: ArrayLike<number>): Code {
  const counts = new Uint16Array(MOST_BITS + 1);
  for (let at = 0; at < lengths.length; at++) counts[lengths[at]]++;
  counts[0] = 0;
  const offsets = new Uint16Array(MOST_BITS + 2);
  for (let bits = 1; bits <= MOST_BITS; bits++) offsets[bits + 1] = offsets[bits] + counts[bits];
  const symbols = new Uint16Array(lengths.length);
  for (let at = 0; at < lengths.length; at++) if (lengths[at]) symbols[offsets[lengths[at]]++] = at;
  return { counts, symbols };
}

const FIXED = codeOf(Array.from({ length: 288 }, (_, at) => (at < 144 ? 8 : at < 256 ? 9 : at < 280 ? 7 : 8)));
const FIXED_DISTANCES = codeOf(new Array<number>(30).fill(5));

/** The bytes in `packed`, which is one member of gzip. */
export function gunzip(packed: Uint8Array): Uint8Array {
  const size = new DataView(packed.buffer, packed.byteOffset).getUint32(packed.length - 4, true);
  const isGzip = packed[0] === 0x1f && packed[1] === 0x8b && packed[3] === 0;
  if (!isGzip || size > MOST_EXPANSION * packed.length) throw new Error("Its data are damaged.");
  const out = new Uint8Array(size);
  let [at, end, held, heldBits] = [HEADER, 0, 0, 0];

  function bits(count: number): number {
    while (heldBits < count) {
      if (at >= packed.length - TRAILER) throw new Error("Its data are cut.");
      held |= packed[at++] << heldBits;
      heldBits += 8;
    }
    const value = held & ((1 << count) - 1);
    held >>>= count;
    heldBits -= count;
    return value;
  }

  function symbol({ counts, symbols }: Code): number {
    for (let [code, first, index, length] = [0, 0, 0, 1]; length <= MOST_BITS; length++) {
      code |= bits(1);
      const count = counts[length];
      if (code - count < first) return symbols[index + (code - first)];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    throw new Error("Its data are damaged.");
  }

  function codes(): [Code, Code] {
    const [literals, distances, given] = [bits(5) + 257, bits(5) + 1, bits(4) + 4];
    const ofLengths = new Uint8Array(LENGTH_ORDER.length);
    for (let at = 0; at < given; at++) ofLengths[LENGTH_ORDER[at]] = bits(3);
    const code = codeOf(ofLengths);
    const lengths = new Uint8Array(literals + distances);
    for (let at = 0; at < lengths.length; ) {
      const found = symbol(code);
      if (found < 16) lengths[at++] = found;
      else if (found === 16) {
        const last = lengths[at - 1];
        for (let count = bits(2) + 3; count > 0; count--) lengths[at++] = last;
      } else at += found === 17 ? bits(3) + 3 : bits(7) + 11;
    }
    return [codeOf(lengths.subarray(0, literals)), codeOf(lengths.subarray(literals))];
  }

  function stored(): void {
    [held, heldBits] = [0, 0];
    const length = packed[at] | (packed[at + 1] << 8);
    out.set(packed.subarray(at + 4, at + 4 + length), end);
    at += 4 + length;
    end += length;
  }

  function block([literals, distances]: [Code, Code]): void {
    for (let found = symbol(literals); found !== 256; found = symbol(literals)) {
      if (found < 256) {
        out[end++] = found;
        continue;
      }
      const length = LENGTH_BASE[found - 257] + bits(LENGTH_BITS[found - 257]);
      const which = symbol(distances);
      const from = end - DISTANCE_BASE[which] - bits(DISTANCE_BITS[which]);
      // The two can overlap, so that a byte just written is read.
      for (let count = 0; count < length; count++) out[end++] = out[from + count];
    }
  }

  for (let isLast = 0; !isLast; ) {
    isLast = bits(1);
    const kind = bits(2);
    if (kind === 0) stored();
    else block(kind === 1 ? [FIXED, FIXED_DISTANCES] : codes());
  }
  if (end !== size) throw new Error("Its data are damaged.");
  return out;
}
