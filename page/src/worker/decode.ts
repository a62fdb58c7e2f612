// From the text in the page to the document.

import type { Column } from "../document";

/** The bytes of base64. */
export function unpacked(base64: string): Uint8Array<ArrayBuffer> {
  const binary = atob(base64);
  const packed = new Uint8Array(binary.length);
  for (let at = 0; at < packed.length; at++) packed[at] = binary.charCodeAt(at);
  return packed;
}

/** The document in base64 of gzip of JSON. */
export async function inflate(base64: string): Promise<string> {
  const stream = new Blob([unpacked(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** The numbers of a column; see `Column`. */
export function numbers(column: Column | undefined): Float64Array {
  const coded = atob(column ?? "");
  let length = 0;
  for (let at = 0; at < coded.length; at++) if (coded.charCodeAt(at) < 0x80) length += 1;
  const decoded = new Float64Array(length);
  let last = 0;
  for (let at = 0, index = 0; index < length; index++) {
    // A difference can have more than the 32 bits that shifts are of.
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = coded.charCodeAt(at++);
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
      scale *= 128;
    }
    last += value % 2 ? -(value + 1) / 2 : value / 2;
    decoded[index] = last;
  }
  return decoded;
}

export const indices = (column: Column | undefined) => Int32Array.from(numbers(column));
