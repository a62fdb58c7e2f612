// Names and figures as text. Names are data: they are shown character by character, never read as markup.

// Control and format characters (bidirectional ones among them), separators of lines, and halves of pairs.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]/gu;
const ESCAPES: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** The text with each character that cannot be seen, or that moves others, as `\u{202e}`. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (char) => ESCAPES[char] ?? `\\u{${char.codePointAt(0)!.toString(16)}}`);
}

/** Names that are too long, with what the text report shows of each. */
const shorts = new Map<string, string>();

export function setShorts(names: [string, string][]): void {
  shorts.clear();
  for (const [whole, short] of names) shorts.set(whole, short);
}

/** Columns of the longest name that is shown whole, as in the text report. */
const LONGEST = 200;

/** What is shown of a name. */
export function short(name: string): string {
  const [, of, line = ""] = /^(.*?)(:\d+)?$/s.exec(name)!;
  const known = shorts.get(name) ?? (shorts.has(of) ? shorts.get(of) + line : name);
  return visible(known.length > LONGEST ? `${known.slice(0, LONGEST / 2)}…${known.slice(1 - LONGEST / 2)}` : known);
}

const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** `1.5 MiB`; below 1 KiB the exact number of bytes. As in the text report. */
export function bytes(value: number): string {
  const size = Math.abs(value);
  if (size < 1024) return `${round(value)} B`;
  let scaled = size / 1024;
  let unit = 0;
  while (scaled >= 1023.95 && unit + 1 < UNITS.length) {
    scaled /= 1024;
    unit += 1;
  }
  return `${value < 0 ? "-" : ""}${scaled.toFixed(1)} ${UNITS[unit]}`;
}

/** `3,104`. */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/** `1.3 M`, for axes. */
export function brief(value: number): string {
  const size = Math.abs(value);
  for (const [from, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (size >= from) return `${trimmed(value / from)} ${unit}`;
  }
  return trimmed(value);
}

const trimmed = (value: number) => String(Number(value.toPrecision(3)));
const round = (value: number) => (Number.isInteger(value) ? value : Number(value.toFixed(1)));

/** `12.3 %`; `< 0.1 %` for what is little but not nothing. */
export function percent(part: number, whole: number): string {
  if (!whole || !part) return "0 %";
  const share = (100 * part) / whole;
  if (Math.abs(share) < 0.1) return "< 0.1 %";
  return `${share >= 99.95 ? "100" : share.toFixed(1)} %`;
}

/** `1.50 s`, `200 ms`, `2 min 05 s`. */
export function time(ns: number): string {
  if (ns === 0) return "0 s";
  if (ns < 1e3) return `${round(ns)} ns`;
  if (ns < 1e6) return `${trimmed(ns / 1e3)} µs`;
  if (ns < 1e9) return `${trimmed(ns / 1e6)} ms`;
  if (ns < 60e9) return `${(ns / 1e9).toFixed(ns < 10e9 ? 2 : 1)} s`;
  const seconds = Math.round(ns / 1e9);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const two = (number: number) => String(number).padStart(2, "0");
  return hours ? `${hours} h ${two(minutes)} min` : `${minutes} min ${two(seconds % 60)} s`;
}

/** As a sentence: with a capital and a full stop. */
export const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

/** The name of the outermost scope, and what is shown of it, as in the text report. */
const OUTERMOST = "GlobalScope";
const WHOLE_PROGRAM = "(whole program)";

/** A scope stack as it is shown. */
export const shownPath = (path: string[]) => path.map((name, at) => (at === 0 && name === OUTERMOST ? WHOLE_PROGRAM : name));

/** What a figure is: a time, bytes, or a number of something. */
export function figure(key: string, value: number): string {
  if (key.endsWith("_at_ns")) return time(value);
  return /bytes/.test(key) ? bytes(value) : count(value);
}
