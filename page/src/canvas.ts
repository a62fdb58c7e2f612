// Draws a layout, and finds what is at a place of it.

import { FLAG, type Layout } from "./messages";
import { bytes, count, percent, short } from "./text";
import { color } from "./theme";

export const ROW = 19;
const PADDING = 4;

export interface Look {
  /** The colour of the figure that is shown, as `#rrggbb`. */
  base: string;
  isBytes: boolean;
  /** With the root at the bottom. */
  isUpsideDown: boolean;
  isSearching: boolean;
  hovered: number;
  selected: number;
}

type Rgb = [number, number, number];

const rgb = (hex: string): Rgb => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Rgb;
const mixed = (a: Rgb, b: Rgb, part: number): Rgb => a.map((value, at) => Math.round(value + (b[at] - value) * part)) as Rgb;
const css = ([r, g, b]: Rgb) => `rgb(${r},${g},${b})`;

/** Shades of the figure's colour, so that neighbours differ, and one name has one shade. */
class Palette {
  readonly #shades: string[] = [];
  readonly #libraries: string[] = [];
  readonly #faded: string[] = [];
  readonly match = color("match");
  readonly rest = color("rest");
  readonly ink = color("on-shade");
  readonly faint = color("on-rest");
  readonly onMatch = color("on-match");
  readonly focus = color("focus");
  readonly surface = color("surface");

  constructor(base: string) {
    const [from, paper, grey] = [rgb(base), rgb(color("shade")), rgb(color("rest"))];
    for (let shade = 0; shade < 8; shade++) {
      const part = 0.3 + shade * 0.045;
      this.#shades.push(css(mixed(from, paper, part)));
      this.#libraries.push(css(mixed(mixed(from, grey, 0.6), paper, part)));
      this.#faded.push(css(mixed(mixed(from, grey, 0.85), rgb(color("surface")), 0.45 + shade * 0.03)));
    }
  }

  fill(layout: Layout, at: number, isSearching: boolean): string {
    const flags = layout.flags[at];
    if (flags & FLAG.match) return this.match;
    if (flags & FLAG.rest) return this.rest;
    const shade = hash(layout.label[at]) & 7;
    if (isSearching) return this.#faded[shade];
    return flags & (FLAG.library | FLAG.own) ? this.#libraries[shade] : this.#shades[shade];
  }

  text(layout: Layout, at: number, isSearching: boolean): string {
    const flags = layout.flags[at];
    if (flags & FLAG.match) return this.onMatch;
    return isSearching || flags & FLAG.rest ? this.faint : this.ink;
  }
}

const hash = (value: number) => (Math.imul(value + 1, 0x9e3779b1) >>> 24) ^ (value >> 3);

/** The widths of characters, measured once for a font. */
class Widths {
  readonly #known = new Map<string, number>();

  constructor(readonly context: CanvasRenderingContext2D) {}

  /** As much of the text as has room: both ends of it, with an ellipsis in the place of its middle. */
  fit(text: string, room: number): string {
    const chars = [...text];
    const widths = chars.map((char) => this.#of(char));
    let rest = widths.reduce((sum, width) => sum + width, 0);
    if (rest <= room) return text;
    let [start, end] = [Math.ceil(chars.length / 2), Math.floor(chars.length / 2)];
    const ellipsis = this.#of("…");
    while (start > 0 && rest + ellipsis > room) rest -= end > start ? widths[chars.length - end--] : widths[--start];
    return start > 0 ? `${chars.slice(0, start).join("")}…${end ? chars.slice(-end).join("") : ""}` : "";
  }

  #of(char: string): number {
    let width = this.#known.get(char);
    if (width === undefined) this.#known.set(char, (width = this.context.measureText(char).width));
    return width;
  }
}

/** The top of a row in the picture. */
export function rowTop(layout: Layout, y: number, isUpsideDown: boolean): number {
  return (isUpsideDown ? layout.levels - 1 - y : y) * ROW;
}

/** Draws what is visible of a layout at `top` into a canvas of this size. */
export function draw(canvas: HTMLCanvasElement, layout: Layout, look: Look, top: number, width: number, height: number): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.scale(ratio, ratio);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.direction = "ltr";
  const palette = new Palette(look.base);
  const widths = new Widths(context);
  const isFlame = layout.kind === "flame";
  for (let at = 0; at < layout.x.length; at++) {
    const box = place(layout, at, look, top);
    if (box.y + box.height < 0 || box.y > height) continue;
    const gap = isFlame && box.width > 2 ? 0.5 : 0;
    context.fillStyle = palette.fill(layout, at, look.isSearching);
    context.fillRect(box.x, box.y, Math.max(box.width - gap, 0.5), box.height - (isFlame ? 1 : 0));
    if (!isFlame && layout.depth[at] > 0) {
      context.strokeStyle = palette.surface;
      context.strokeRect(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1);
    }
    if (box.width > 26 && box.height > 11) label(context, layout, at, look, box, palette, widths);
  }
  for (const [at, weight] of [[look.selected, 2], [look.hovered, 1.5]] as const) {
    if (at < 0 || at >= layout.x.length) continue;
    const box = place(layout, at, look, top);
    context.strokeStyle = at === look.selected ? palette.focus : palette.ink;
    context.lineWidth = weight;
    context.strokeRect(box.x + weight / 2, box.y + weight / 2, Math.max(box.width - weight, 1), box.height - 1 - weight);
  }
}

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

function place(layout: Layout, at: number, look: Look, top: number): Box {
  if (layout.kind === "treemap") {
    return { x: layout.x[at], y: layout.y[at] - top, width: layout.width[at], height: layout.height[at] };
  }
  const y = rowTop(layout, layout.y[at], look.isUpsideDown) - top;
  return { x: layout.x[at], y, width: layout.width[at], height: ROW };
}

function label(
  context: CanvasRenderingContext2D, layout: Layout, at: number, look: Look, box: Box, palette: Palette, widths: Widths,
): void {
  const flags = layout.flags[at];
  const name = nameOf(layout, at);
  const room = Math.min(box.width, 2000) - 2 * PADDING;
  const isLeaf = layout.kind === "treemap" && !(flags & FLAG.inner);
  context.fillStyle = palette.text(layout, at, look.isSearching);
  const y = isLeaf ? box.y + 10 : box.y + (layout.kind === "flame" ? (ROW - 1) / 2 + 0.5 : 9);
  // A view into a wide rectangle keeps its name in sight.
  const value = look.isBytes ? bytes(layout.value[at]) : count(layout.value[at]);
  if (isLeaf) {
    context.fillText(widths.fit(name, room), box.x + PADDING, y);
    if (box.height > 30) context.fillText(widths.fit(value, room), box.x + PADDING, y + 15);
    return;
  }
  const full = widths.fit(name, room);
  context.fillText(full, box.x + PADDING, y);
  // Where both have room, the figure is at the right.
  if (full === name && !(flags & FLAG.rest)) {
    const figure = `${value} · ${percent(layout.value[at], layout.total)}`;
    const nameWidth = context.measureText(name).width;
    const figureWidth = context.measureText(figure).width;
    if (nameWidth + figureWidth + 24 < room) context.fillText(figure, box.x + box.width - PADDING - figureWidth, y);
  }
}

export function nameOf(layout: Layout, at: number): string {
  const flags = layout.flags[at];
  if (flags & FLAG.rest) return "(smaller ones)";
  if (flags & FLAG.own) return "(itself)";
  return short(layout.labels.get(layout.label[at]) ?? "");
}

/** The innermost rectangle at a place; -1 if there is none. */
export function find(layout: Layout, x: number, y: number, isUpsideDown: boolean): number {
  if (layout.kind === "treemap") {
    let found = -1;
    for (let at = 0; at < layout.x.length; at++) {
      const isIn = x >= layout.x[at] && x < layout.x[at] + layout.width[at] && y >= layout.y[at] && y < layout.y[at] + layout.height[at];
      if (isIn) found = at;
    }
    return found;
  }
  const row = Math.floor(y / ROW);
  const level = isUpsideDown ? layout.levels - 1 - row : row;
  for (let at = 0; at < layout.x.length; at++) {
    if (layout.y[at] === level && x >= layout.x[at] && x < layout.x[at] + Math.max(layout.width[at], 1)) return at;
  }
  return -1;
}
